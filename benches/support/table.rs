//! The table at the end: a row a figure, with its peer, its ratio and its aim.

use std::time::Duration;

use super::stats::show;

/// One figure.
#[derive(Debug, Clone, Default)]
pub struct Row {
    what: String,
    ours: String,
    peer: String,
    ratio: String,
    aim: String,
    verdict: &'static str,
}

/// All figures so far.
#[derive(Debug, Clone, Default)]
pub struct Table(Vec<Row>);

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}

impl Table {
    /// A time beside a peer's. With an aim: the largest ratio, and how it is written.
    pub fn ratio(&mut self, what: &str, ours: Duration, peer: (&str, Duration), aim: Option<(f64, &str)>) {
        let ratio = ours.as_secs_f64() / peer.1.as_secs_f64().max(1e-9);
        let shown = if ratio < 0.2 { format!("1/{:.0}", 1.0 / ratio) } else { format!("{ratio:.2}") };
        self.push(Row {
            what: what.to_owned(),
            ours: show(ours),
            peer: format!("{} {}", show(peer.1), peer.0),
            ratio: shown,
            aim: aim.map(|(_, text)| text.to_owned()).unwrap_or_default(),
            verdict: aim.map_or("", |(most, _)| verdict(ratio <= most)),
        });
    }

    /// A figure of its own. With an aim: whether it is reached, and how it is written.
    pub fn figure(&mut self, what: &str, ours: String, aim: Option<(bool, &str)>) {
        self.push(Row {
            what: what.to_owned(),
            ours,
            aim: aim.map(|(_, text)| text.to_owned()).unwrap_or_default(),
            verdict: aim.map_or("", |(reached, _)| verdict(reached)),
            ..Row::default()
        });
    }

    fn push(&mut self, row: Row) {
        println!(
            "  {}",
            [&row.what, &row.ours, &row.peer, &row.ratio].map(String::as_str).join("   ").trim_end()
        );
        self.0.push(row);
    }

    /// Prints all rows in columns.
    pub fn print(&self) {
        let head = ["", "skep", "peer", "ratio", "aim", ""].map(str::to_owned);
        let cells = |r: &Row| {
            [&r.what, &r.ours, &r.peer, &r.ratio, &r.aim]
                .map(Clone::clone)
                .into_iter()
                .chain([r.verdict.to_owned()])
        };
        let lines: Vec<Vec<String>> =
            [head.to_vec()].into_iter().chain(self.0.iter().map(|r| cells(r).collect())).collect();
        let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..6).map(width).collect();
        for line in &lines {
            let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            println!("{}", padded.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}
