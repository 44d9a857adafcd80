//! Grouping of a batch's replies: those to one destination from one source that are equally long leave as one
//! send, which the kernel splits (`UDP_SEGMENT`). Planning only; `mmsg` sends.

use std::net::{IpAddr, SocketAddr};

/// Most replies in a send, as supported by every kernel with `UDP_SEGMENT`.
const MAX_REPLIES_A_SEND: usize = 64;
/// Longest reply in a group, in bytes. With its headers each must fit a packet, which is limited to 1280
/// bytes on our IPv6 sockets.
const MAX_REPLY_BYTES: usize = 1232;
/// Most bytes in a send, below the limit of the length field of either family.
const MAX_GROUP_BYTES: usize = 65_000;
/// Size of the table of open groups, a power of two; a reply looks up its group in one place only.
const GROUP_SLOTS: usize = 256;
/// Smallest batch that is grouped, and the smallest that shows how many flows there are.
const MIN_GROUPED_BATCH: usize = 4;
const DEEP_BATCH: usize = 32;
/// Number of batches sent without grouping after a deep batch in which few replies could be joined.
const UNGROUPED_BATCHES: u32 = 15;

/// A reply to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedReply {
    /// Index of its buffer, and of its envelope.
    pub(crate) buffer: usize,
    pub(crate) len: usize,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Replies that leave in one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Index of its first reply, among the replies in their new order.
    pub(crate) start: usize,
    pub(crate) count: usize,
    /// Index of the reply that started it, among those of the batch.
    first: usize,
}

/// The groups of one batch; reused for the next.
#[derive(Default)]
pub(crate) struct Plan {
    /// Replies, in the order of their groups.
    pub(crate) order: Vec<usize>,
    pub(crate) groups: Vec<Group>,
    /// The group of each reply.
    membership: Vec<usize>,
    /// The last group started at each place of the table.
    places: Vec<u16>,
    pause: u32,
}

impl Plan {
    /// Plans to send every reply alone.
    pub(crate) fn singly(&mut self, n: usize) {
        self.groups.clear();
        self.order.clear();
        self.order.extend(0..n);
        self.groups.extend((0..n).map(|i| Group { start: i, count: 1, first: i }));
    }

    /// Splits the groups from `at` on into single replies.
    pub(crate) fn part(&mut self, at: usize) {
        let start = self.groups.get(at).map_or(self.order.len(), |group| group.start);
        self.groups.truncate(at);
        let alone = |start| Group { start, count: 1, first: self.order[start] };
        self.groups.extend((start..self.order.len()).map(alone));
    }

    /// Groups `replies`.
    #[inline]
    pub(crate) fn make(&mut self, replies: &[QueuedReply]) {
        if self.pause > 0 || replies.len() < MIN_GROUPED_BATCH {
            self.pause = self.pause.saturating_sub(1);
            return self.singly(replies.len());
        }
        self.groups.clear();
        self.membership.clear();
        self.places.clear();
        self.places.resize(GROUP_SLOTS, 0);
        for (i, reply) in replies.iter().enumerate() {
            let place = &mut self.places[place(reply)];
            let open = self.groups.get_mut(usize::from(*place)).filter(|group| {
                let first = &replies[group.first];
                first.len == reply.len
                    && reply.len <= MAX_REPLY_BYTES
                    && group.count < MAX_REPLIES_A_SEND.min(MAX_GROUP_BYTES / reply.len)
                    && first.peer == reply.peer
                    && first.local == reply.local
            });
            match open {
                Some(group) => {
                    group.count += 1;
                    self.membership.push(usize::from(*place));
                }
                None => {
                    *place = self.groups.len() as u16;
                    self.membership.push(self.groups.len());
                    self.groups.push(Group { start: 0, count: 1, first: i });
                }
            }
        }
        // Less than one in four was joined: grouping is not worthwhile.
        if replies.len() >= DEEP_BATCH && self.groups.len() * 4 > replies.len() * 3 {
            self.pause = UNGROUPED_BATCHES;
        }
        let mut start = 0;
        for group in &mut self.groups {
            group.start = start;
            start += group.count;
        }
        self.order.clear();
        self.order.resize(replies.len(), 0);
        for (i, &k) in self.membership.iter().enumerate() {
            let group = &mut self.groups[k];
            self.order[group.start] = i;
            group.start += 1;
        }
        for group in &mut self.groups {
            group.start -= group.count;
        }
    }
}

/// Returns the place of this reply's group in the table. A client that guesses it harms only itself: replies
/// of different groups in one place are sent alone.
#[inline]
fn place(reply: &QueuedReply) -> usize {
    let address = match reply.peer.ip() {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits() as u64,
    };
    let key = address ^ u64::from(reply.peer.port()) << 32 ^ (reply.len as u64) << 48;
    // The top bits of a product depend on all bits of the factor (the odd number nearest 2^64 over the golden
    // ratio).
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GROUP_SLOTS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reply(buffer: usize, port: u16, len: usize) -> QueuedReply {
        let local = "192.0.2.1:53".parse().unwrap();
        QueuedReply { buffer, len, peer: ([192, 0, 2, 2], port).into(), local }
    }

    #[test]
    fn few_flows_are_few_groups() {
        let replies: Vec<_> = (0..64).map(|i| reply(i, 4000 + i as u16 % 4, 29 + i % 3)).collect();
        let mut plan = Plan::default();
        plan.make(&replies);
        assert_eq!(plan.groups.len(), 12);
        assert!(plan.groups.iter().all(|group| group.count >= 5));
    }

    #[test]
    fn many_flows_are_not_looked_at_every_time() {
        let many: Vec<_> = (0..64).map(|i| reply(i, 4000 + i as u16, 40)).collect();
        let one: Vec<_> = (0..64).map(|i| reply(i, 4000, 40)).collect();
        let mut plan = Plan::default();
        plan.make(&many);
        for _ in 0..UNGROUPED_BATCHES {
            plan.make(&one);
            assert_eq!(plan.groups.len(), 64);
        }
        plan.make(&one);
        assert_eq!(plan.groups.len(), 1);
    }

    #[test]
    fn groups_keep_to_the_limits_of_the_kernel() {
        let mut plan = Plan::default();
        plan.make(&(0..130).map(|i| reply(i, 4000, 40)).collect::<Vec<_>>());
        assert_eq!(plan.groups.iter().map(|g| g.count).collect::<Vec<_>>(), [64, 64, 2]);
        plan.make(&(0..60).map(|i| reply(i, 4000, 1232)).collect::<Vec<_>>());
        assert_eq!(plan.groups.iter().map(|g| g.count).collect::<Vec<_>>(), [52, 8]);
        plan.make(&(0..8).map(|i| reply(i, 4000, 1233)).collect::<Vec<_>>());
        assert_eq!(plan.groups.len(), 8);
    }

    proptest! {
        #[test]
        fn every_reply_is_in_one_group_of_its_like(
            kinds in prop::collection::vec((0..5_u16, 1..4_usize), 0..200),
        ) {
            let replies: Vec<_> = kinds.iter().enumerate().map(|(i, (port, len))| reply(i, *port, *len)).collect();
            let mut plan = Plan::default();
            plan.make(&replies);
            let mut order = plan.order.clone();
            let mut next = 0;
            for group in &plan.groups {
                prop_assert_eq!(group.start, next);
                next += group.count;
                let members = &plan.order[group.start..next];
                let first = &replies[members[0]];
                prop_assert!(members.iter().all(|&i| replies[i].peer == first.peer && replies[i].len == first.len));
                prop_assert!(members.is_sorted());
            }
            order.sort();
            prop_assert_eq!(order, (0..replies.len()).collect::<Vec<_>>());
            // After a split, each reply is still sent once, in the same order.
            let at = plan.groups.len() / 2;
            let order = plan.order.clone();
            plan.part(at);
            prop_assert_eq!(&plan.order, &order);
            prop_assert_eq!(plan.groups.iter().map(|group| group.count).sum::<usize>(), replies.len());
            prop_assert!(plan.groups[at..].iter().all(|group| group.count == 1));
            prop_assert!(plan.groups.windows(2).all(|g| g[0].start + g[0].count == g[1].start));
        }
    }
}
