//! Answers of our resolver and of other projects' to the same questions, in the same scenarios.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::network;
use crate::peers::PeerKind;

/// Number of scenarios that run in parallel: they spend nearly all their time waiting for silent servers.
const PARALLEL_SCENARIOS: usize = 16;
/// How often a scenario in which the peers agree against the expected result is repeated, alone.
const REPLAYS: usize = 2;

/// Environment variable: inside a namespace, the scenario to play; outside, part of the titles of the
/// scenarios to run.
pub const SCENARIO: &str = "PEERS_SCENARIO";

/// Answers to one question of a scenario: the expected one, which a test here asserts, and that of each peer.
#[derive(Clone, Debug)]
pub struct ScenarioAnswers {
    /// The title of the scenario.
    pub scenario: String,
    /// The question.
    pub question: String,
    /// The expected answer, followed by those of [`PeerKind::ALL`].
    pub answers: Vec<String>,
}

impl fmt::Display for ScenarioAnswers {
    /// Writes the line that `ScenarioAnswers::read` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verdict\t{}\t{}\t{}", self.scenario, self.question, self.answers.join("\t"))
    }
}

impl ScenarioAnswers {
    fn read(line: &str) -> Option<ScenarioAnswers> {
        let mut parts = line.strip_prefix("verdict\t")?.split('\t').map(str::to_owned);
        Some(ScenarioAnswers { scenario: parts.next()?, question: parts.next()?, answers: parts.collect() })
    }

    /// Whether all peers agree with each other, but not with the expected answer.
    fn is_against_us(&self) -> bool {
        let [ours, others @ ..] = &self.answers[..] else { return false };
        others.iter().all(|other| other != ours && *other == others[0])
    }

    fn is_explained(&self, explained: &str) -> bool {
        explained.contains(&format!("| {} | {} |", self.scenario, self.question))
    }
}

/// Plays scenarios with peers, each in a network namespace of its own: `inside` is the ignored test that
/// plays the scenario named by [`SCENARIO`], and prints a [`ScenarioAnswers`] for each question. `folder` is
/// the folder for files of tests in the build folder; all differences are written to its `peers.txt`.
/// `explained` has rows that begin with `| scenario | question |`.
///
/// # Panics
/// If all peers agree with each other and not with what is expected, and `explained` does not have the
/// question; or if fewer than `least` questions are asked: tests call this.
pub fn compare_with_peers(titles: &[String], inside: &str, folder: &str, explained: &str, least: usize) {
    let build = Path::new(folder).parent().expect("the build folder");
    if let Some(kind) = PeerKind::ALL.into_iter().find(|kind| kind.program(build).is_none()) {
        return crate::left_out(&format!("{} is missing: no other resolver plays scenarios", kind.label()));
    }
    if !network::is_to_be_had() {
        return;
    }
    let rows = explained.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| scenario |"));
    for row in rows {
        let title = row.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
        assert!(titles.iter().any(|known| known == title), "explained, and no such scenario: {title}");
    }
    let wanted = std::env::var(SCENARIO).unwrap_or_default();
    let titles: Vec<&String> = titles.iter().filter(|title| title.contains(&wanted)).collect();
    let verdicts = play_all(&titles, inside);
    report(&verdicts, &Path::new(folder).join("peers.txt"), !wanted.is_empty());
    let is_wrong = |verdict: &ScenarioAnswers| verdict.is_against_us() && !verdict.is_explained(explained);
    let mut wrong: Vec<ScenarioAnswers> =
        verdicts.iter().filter(|verdict| is_wrong(verdict)).cloned().collect();
    // Peers run in real time, and time out on a busy machine: they must agree also when a scenario is played
    // alone.
    for _ in 0..REPLAYS {
        let again = titles.iter().filter(|title| wrong.iter().any(|verdict| verdict.scenario == ***title));
        let replayed: Vec<ScenarioAnswers> = again.flat_map(|title| play(title, inside)).collect();
        let is_same =
            |verdict: &ScenarioAnswers| wrong.iter().any(|before| before.question == verdict.question);
        wrong = replayed.into_iter().filter(|verdict| is_wrong(verdict) && is_same(verdict)).collect();
    }
    assert!(wrong.is_empty(), "Unbound, BIND and Recursor agree with each other and not with: {wrong:#?}");
    assert!(!wanted.is_empty() || verdicts.len() >= least, "only {} questions were asked", verdicts.len());
}

/// Plays one scenario, and returns the verdicts.
fn play(title: &str, inside: &str) -> Vec<ScenarioAnswers> {
    network::run_inside(inside, &[(SCENARIO, title)]).lines().filter_map(ScenarioAnswers::read).collect()
}

fn play_all(titles: &[&String], inside: &str) -> Vec<ScenarioAnswers> {
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_SCENARIOS {
            scope.spawn(|| {
                while let Some(title) = titles.get(next.fetch_add(1, Relaxed)) {
                    let said = play(title, inside);
                    verdicts.lock().expect("no panic").extend(said);
                }
            });
        }
    });
    let mut verdicts: Vec<ScenarioAnswers> = verdicts.into_inner().expect("no panic");
    verdicts.sort_by(|a, b| (&a.scenario, &a.question).cmp(&(&b.scenario, &b.question)));
    verdicts
}

/// Writes the differences, or all answers, to a file, and prints their number.
fn report(verdicts: &[ScenarioAnswers], file: &Path, all: bool) {
    let (mut text, mut counts) = (String::new(), BTreeMap::<&str, usize>::new());
    for verdict in verdicts {
        let [ours, others @ ..] = &verdict.answers[..] else { continue };
        let theirs = PeerKind::ALL.iter().zip(others);
        let differ: Vec<&str> =
            theirs.filter(|(_, answer)| *answer != ours).map(|(kind, _)| kind.label()).collect();
        differ.iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
        if !differ.is_empty() || all {
            let _ = writeln!(text, "{}: {}\n    expected  {ours}", verdict.scenario, verdict.question);
            for (kind, answer) in PeerKind::ALL.iter().zip(others) {
                let _ = writeln!(text, "    {:9} {answer}", kind.label());
            }
        }
    }
    std::fs::write(file, &text).expect("written");
    println!("{} questions; of these different: {counts:?}; see {}", verdicts.len(), file.display());
    if all {
        println!("{text}");
    }
}
