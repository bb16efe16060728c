//! Secrets: names and who uses them; setting and removing. A value is never answered.

use std::collections::BTreeMap;

use super::{
    hive::Hive,
    types::{AppError, SecretView},
    world::UpdateScope,
};
use crate::{
    config::model::Config,
    ids::SecretName,
    secrets::{
        SecretValue,
        mask::is_maskable,
        store::{SecretStore, StoreError},
    },
};

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Faults(_) => AppError::Conflict(error.to_string()),
            StoreError::Io { source, .. } => AppError::Unavailable(format!("{error}: {source}")),
        }
    }
}

impl Hive {
    /// The secrets file that the configuration names.
    #[must_use]
    pub fn secret_store(&self, config: &Config) -> SecretStore {
        SecretStore::new(&self.paths.root, &config.secrets_file)
    }

    /// Every secret that is set or declared, with the agents that get it.
    ///
    /// # Errors
    /// None at present; the shape of all use cases.
    pub async fn secrets(&self) -> Result<Vec<SecretView>, AppError> {
        let world = self.world();
        let mut views: BTreeMap<SecretName, SecretView> = BTreeMap::new();
        let blank =
            |name: &SecretName, set| SecretView { name: name.to_string(), set, used_by: BTreeMap::new() };
        for name in world.secrets.names() {
            views.insert(name.clone(), blank(&name, true));
        }
        for agent in self.all_agents() {
            let Some(preparation) = agent.preparation() else { continue };
            let grants = &preparation.grants;
            let declared = grants.granted.iter().chain(grants.missing.iter().map(|m| &m.name));
            for name in declared {
                let set = world.secrets.get(name).is_some();
                let view = views.entry(name.clone()).or_insert_with(|| blank(name, set));
                let by = preparation.skills.iter().filter(|s| s.skill.secrets.contains(name));
                let skills = by.map(|s| s.skill.id.to_string()).collect();
                view.used_by.insert(agent.id.to_string(), skills);
            }
        }
        Ok(views.into_values().collect())
    }

    /// Sets a secret; agents that are granted it get it at once, a running `main` by a restart of its process.
    /// Answers warnings.
    ///
    /// # Errors
    /// The file is at fault or cannot be written.
    pub async fn set_secret(&self, name: &SecretName, value: SecretValue) -> Result<Vec<String>, AppError> {
        let mut warnings = Vec::new();
        if !is_maskable(&value) {
            warnings.push(format!("the value of {name} is too short to be masked in outputs"));
        }
        let store = self.secret_store(&self.world().config);
        store.set(name, value)?;
        self.refresh(&UpdateScope::default()).await;
        if !self.secrets().await?.iter().any(|s| s.name == name.as_str() && !s.used_by.is_empty()) {
            warnings.push(format!("no skill of any agent declares {name}: nobody gets it yet"));
        }
        Ok(warnings)
    }

    /// Removes a secret.
    ///
    /// # Errors
    /// It is not set, or the file is at fault or cannot be written.
    pub async fn remove_secret(&self, name: &SecretName) -> Result<(), AppError> {
        let store = self.secret_store(&self.world().config);
        if !store.remove(name)? {
            return Err(AppError::NotFound(format!("there is no secret {name}")));
        }
        self.refresh(&UpdateScope::default()).await;
        Ok(())
    }
}
