//! Checks that the servers answer alike: sends the same queries to each before it is timed, and compares the
//! answers. The majority is taken as right; a server that differs is not timed.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::failure::Result;
use crate::message::{Summary, summarise};
use crate::namespaces;

/// One server's answers to the sample, in order; `None` for a missing or malformed one.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// Summaries of the answers.
    pub(crate) summaries: Vec<Option<Summary>>,
    /// Mean size of a response in bytes.
    pub(crate) mean_size: f64,
}

/// Sends every query of the sample, and repeats it twice if there is no answer within 500 ms.
pub(crate) fn ask(namespace: Option<&str>, server: SocketAddr, sample: &[Vec<u8>]) -> Result<Answers> {
    let socket = namespaces::socket(namespace, server)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut summaries = Vec::with_capacity(sample.len());
    let (mut bytes, mut responses) = (0, 0u32);
    for (number, query) in sample.iter().enumerate() {
        let mut answer = None;
        for _ in 0..3 {
            if let Some(response) = exchange(&socket, query, number as u16) {
                bytes += response.len();
                responses += 1;
                answer = Some(response);
                break;
            }
        }
        summaries.push(answer.and_then(|response| summarise(&response).ok()));
    }
    Ok(Answers { summaries, mean_size: bytes as f64 / f64::from(responses.max(1)) })
}

/// Sends one query with this ID and waits for its answer; `None` after the socket's timeout.
pub(crate) fn exchange(socket: &UdpSocket, query: &[u8], id: u16) -> Option<Vec<u8>> {
    let mut message = query.to_vec();
    message.get_mut(..2)?.copy_from_slice(&id.to_be_bytes());
    socket.send(&message).ok()?;
    let mut buffer = [0; 65_535];
    loop {
        let length = socket.recv(&mut buffer).ok()?;
        let response = buffer.get(..length)?;
        if response.get(..2) == message.get(..2) {
            return Some(response.to_vec());
        }
    }
}

/// Number of a server's answers that differ from the majority's, with an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Number of answers that differ.
    pub(crate) count: usize,
    /// The first of them, as text: its number in the sample and both answers.
    pub(crate) example: Option<String>,
}

/// Compares every server's answers with the majority's, query by query. In a tie no server is known to be
/// right, so all differ. Of several servers with the same program only one has a vote.
pub(crate) fn compare(all: &[(&Answers, bool)]) -> Vec<Difference> {
    let mut differences = vec![Difference::default(); all.len()];
    let questions = all.iter().map(|(answers, _)| answers.summaries.len()).max().unwrap_or(0);
    for question in 0..questions {
        let given: Vec<Option<Summary>> =
            all.iter().map(|(answers, _)| answers.summaries.get(question).copied().flatten()).collect();
        let mut votes: BTreeMap<Summary, usize> = BTreeMap::new();
        let voting = given.iter().zip(all).filter(|(_, (_, has_vote))| *has_vote);
        for summary in voting.filter_map(|(summary, _)| *summary) {
            *votes.entry(summary).or_default() += 1;
        }
        let most = votes.values().max().copied().unwrap_or(0);
        let mut leading = votes.iter().filter(|(_, count)| **count == most).map(|(summary, _)| *summary);
        let right = leading.next().filter(|_| leading.next().is_none());
        for (difference, summary) in differences.iter_mut().zip(&given) {
            if summary.is_none() || *summary != right {
                difference.count += 1;
                difference
                    .example
                    .get_or_insert_with(|| format!("#{question}: {summary:?}, others {right:?}"));
            }
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Count;

    fn summary(rcode: u8) -> Option<Summary> {
        let none = Count::default();
        let (authoritative, authentic, truncated) = (true, false, false);
        Some(Summary { rcode, authoritative, authentic, truncated, answer: none, authority: none, glue: 0 })
    }

    fn answers(rcodes: &[Option<u8>]) -> Answers {
        Answers { summaries: rcodes.iter().map(|rcode| rcode.and_then(summary)).collect(), mean_size: 1.0 }
    }

    #[test]
    fn the_majority_is_right() {
        let servers = [
            answers(&[Some(3), Some(0), Some(0)]),
            answers(&[Some(0), Some(0), None]),
            answers(&[Some(0), Some(0), Some(0)]),
        ];
        let found = compare(&servers.each_ref().map(|answers| (answers, true)));
        assert_eq!(found.iter().map(|difference| difference.count).collect::<Vec<_>>(), [1, 1, 0]);
        assert!(found[0].example.as_deref().is_some_and(|text| text.starts_with("#0")));
    }

    #[test]
    fn a_tie_clears_nobody() {
        let (one, other) = (answers(&[Some(0), Some(3)]), answers(&[Some(3), Some(3)]));
        let counts = |all: &[(&Answers, bool)]| compare(all).iter().map(|d| d.count).collect::<Vec<_>>();
        assert_eq!(counts(&[(&one, true), (&other, true)]), [1, 1]);
        // A second copy of the same program does not make a majority either.
        assert_eq!(counts(&[(&one, true), (&other, true), (&other, false)]), [1, 1, 1]);
        assert_eq!(counts(&[(&one, true), (&other, false)]), [0, 1]);
    }

    #[test]
    fn silence_of_all_is_still_wrong() {
        let found = compare(&[(&answers(&[None]), true), (&answers(&[None]), true)]);
        assert_eq!(found.iter().map(|difference| difference.count).collect::<Vec<_>>(), [1, 1]);
    }
}
