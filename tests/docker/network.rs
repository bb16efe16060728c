//! Network `internet`: what an agent on it cannot reach.

use std::net::TcpListener;

use skep::{
    engine::{Engine, EngineError, NetworkSpec, firewall},
    ids::HiveName,
};

use crate::support::{IMAGE, Trash, World};

/// Tries each address for three seconds and says `open` or the error.
const DIAL: &str = r#"python3 - "$@" <<'PY'
import os, socket, sys
for target in os.environ["TARGETS"].split():
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 3).close()
        print(target, "open")
    except OSError as e:
        print(target, "closed", e)
PY"#;

/// Removes the rules at the end, also after a panic.
struct Rules<'a>(&'a HiveName, &'a str);

impl Drop for Rules<'_> {
    fn drop(&mut self) {
        let (hive, bridge) = (self.0.clone(), self.1.to_owned());
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(firewall::remove(&hive, &bridge))
        };
        std::thread::spawn(clean).join().unwrap().unwrap();
    }
}

async fn gateway(world: &World, network: &str) -> String {
    let options = None::<bollard::query_parameters::InspectNetworkOptions>;
    let found = world.raw.inspect_network(network, options).await.unwrap();
    let config = found.ipam.and_then(|i| i.config).unwrap_or_default();
    config[0].gateway.clone().expect("a gateway")
}

async fn address(world: &World, id: &str, network: &str) -> String {
    let raw = world.inspect_raw(id).await;
    let address = &raw["NetworkSettings"]["Networks"][network]["IPAddress"];
    address.as_str().expect("an address").to_owned()
}

#[tokio::test]
async fn an_agent_on_the_internet_reaches_neither_agents_nor_host_nor_metadata() {
    let world = World::new().await;
    let hive: HiveName = world.prefix.parse().unwrap();
    let network = NetworkSpec::internet(&hive);
    world.later(Trash::Network(network.name.clone()));
    world.engine.ensure_network(&network).await.unwrap();
    let gateway = gateway(&world, &network.name).await;
    let service = TcpListener::bind((gateway.as_str(), 0)).unwrap();
    let service = format!("{gateway}:{}", service.local_addr().map(|a| (a.port(), service)).unwrap().0);
    let kept = TcpListener::bind(&service).unwrap();

    let mut peer = world.spec("peer", IMAGE, "cd /; exec python3 -m http.server 8000").await;
    peer.network = network.name.clone();
    let peer_id = world.start(&peer).await;
    let peer_address = address(&world, &peer_id, &network.name).await;
    let targets = format!("{peer_address}:8000 {service} 169.254.169.254:80");
    let dial = async |name: &str| {
        let mut spec = world.spec(name, IMAGE, DIAL).await;
        spec.network = network.name.clone();
        spec.env.insert("TARGETS".to_owned(), targets.clone());
        world.run(&spec).await
    };

    // Without rules the host's service answers: the test can see what it looks for.
    let before = firewall::check(&hive, &network.bridge).await.unwrap();
    assert_eq!(before.len(), 5, "{before:?}");
    let open = dial("before").await;
    assert!(open.contains(&format!("{service} open")), "{open}");
    assert!(open.contains(&format!("{peer_address}:8000 closed")), "{open}");

    let _rules = Rules(&hive, &network.bridge);
    for _ in 0..2 {
        firewall::ensure(&hive, &network.bridge).await.unwrap();
    }
    assert_eq!(firewall::check(&hive, &network.bridge).await.unwrap(), Vec::<String>::new());
    let closed = dial("after").await;
    assert_eq!(closed.matches("closed").count(), 3, "{closed}");
    assert_eq!(closed.matches("refused").count(), 3, "{closed}");
    drop(kept);

    // Added once, for all the calls.
    firewall::remove(&hive, &network.bridge).await.unwrap();
    assert_eq!(firewall::check(&hive, &network.bridge).await.unwrap(), before);
}

#[tokio::test]
async fn a_network_is_made_once_however_many_ask_at_once() {
    let world = World::new().await;
    let network = NetworkSpec::internet(&world.prefix.parse().unwrap());
    world.later(Trash::Network(network.name.clone()));
    let asks = (0..6).map(|_| {
        let (engine, network) = (world.engine.clone(), network.clone());
        tokio::spawn(async move { engine.ensure_network(&network).await })
    });
    for ask in asks.collect::<Vec<_>>() {
        ask.await.unwrap().unwrap();
    }
    let options = None::<bollard::query_parameters::ListNetworksOptions>;
    let all = world.raw.list_networks(options).await.unwrap();
    let same = all.iter().filter(|n| n.name.as_ref() == Some(&network.name));
    assert_eq!(same.count(), 1);
    let mut other = network.clone();
    other.bridge = "skep-other".to_owned();
    let error = world.engine.ensure_network(&other).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused(_)), "{error}");
    for _ in 0..2 {
        world.engine.remove_network(&network.name).await.unwrap();
    }
}

#[tokio::test]
async fn an_agent_without_network_has_only_itself() {
    let world = World::new().await;
    let script = "cut -d: -f1 -s /proc/net/dev | tr -d ' '";
    let spec = world.spec("alone", IMAGE, script).await;
    let interfaces = world.run(&spec).await;
    let real: Vec<_> = interfaces
        .lines()
        // Tunnels that the kernel puts into every namespace, down and without address.
        .filter(|i| {
            !i.starts_with("tunl")
                && !i.starts_with("sit")
                && !i.starts_with("ip6tnl")
                && !i.starts_with("gre")
                && !i.starts_with("erspan")
                && !i.starts_with("ip_vti")
                && !i.starts_with("ip6_vti")
                && !i.starts_with("ip6gre")
        })
        .collect();
    assert_eq!(real, ["lo"], "{interfaces}");
}
