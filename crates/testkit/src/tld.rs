//! A zone like that of a top-level domain, for measurements: of any size, and always the same for the same
//! size.

use wire::{NameBuf, Ttl, Type};

use crate::data::soa;
use crate::model::ModelRecord;

/// The TTL of every record.
const DAY: Ttl = Ttl::from_secs(86_400);

/// Records of a top-level domain: delegations in canonical order, most to hosts of a few providers, one in
/// five with an in-domain host and glue, one in ten with DS.
pub struct Tld {
    apex: NameBuf,
    records: u64,
    made: u64,
    number: u64,
    queue: std::collections::VecDeque<ModelRecord>,
}

impl Tld {
    /// Creates about `records` records under `apex`.
    pub fn new(apex: NameBuf, records: u64) -> Self {
        let mut queue = std::collections::VecDeque::new();
        let record = |rtype, rdata| ModelRecord { owner: apex, rtype, ttl: DAY, rdata };
        queue.push_back(record(Type::SOA, soa(apex.as_name(), 1)));
        let host: NameBuf = "a.nic.example.".parse().unwrap_or(NameBuf::ROOT);
        queue.push_back(record(Type::NS, host.as_name().as_wire().to_vec()));
        Tld { apex, records, made: 0, number: 0, queue }
    }

    /// Returns the name of delegation `number`: in the order of the numbers, of varying length.
    pub fn name(apex: NameBuf, number: u64) -> NameBuf {
        let mut label: Vec<u8> = Vec::with_capacity(24);
        let mut power = 26u64.pow(5);
        while power > 0 {
            label.push(b'a' + (number / power % 26) as u8);
            power /= 26;
        }
        label.extend(std::iter::repeat_n(b'x', (mix(number) % 11) as usize));
        NameBuf::prepend(&label, apex.as_name()).unwrap_or(apex)
    }

    fn delegation(&mut self) {
        let dice = mix(self.number ^ 0xabcd);
        let owner = Self::name(self.apex, self.number);
        self.number += 1;
        let own_host = dice.is_multiple_of(5);
        for i in 0..2u64 {
            let host = if own_host {
                let label = [b'n', b's', b'1' + i as u8];
                NameBuf::prepend(&label, owner.as_name()).unwrap_or(owner)
            } else {
                format!("ns{}.provider{}.net.", i + 1, dice / 5 % 5000).parse().unwrap_or(owner)
            };
            self.push(owner, Type::NS, host.as_name().as_wire().to_vec());
        }
        if (dice >> 32).is_multiple_of(10) {
            let mut ds = vec![(dice >> 8) as u8, dice as u8, 13, 2];
            (0..4).for_each(|i| ds.extend_from_slice(&mix(dice + i).to_be_bytes()));
            self.push(owner, Type::DS, ds);
        }
        for i in 0..if own_host { 2u8 } else { 0 } {
            let host = NameBuf::prepend(&[b'n', b's', b'1' + i], owner.as_name()).unwrap_or(owner);
            self.push(host, Type::A, vec![192, 0, 2, i]);
        }
    }

    fn push(&mut self, owner: NameBuf, rtype: Type, rdata: Vec<u8>) {
        self.queue.push_back(ModelRecord { owner, rtype, ttl: DAY, rdata });
    }
}

/// Returns a pseudorandom number (the finalizer of SplitMix64).
pub(crate) fn mix(n: u64) -> u64 {
    let n = (n.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

impl Iterator for Tld {
    type Item = ModelRecord;
    fn next(&mut self) -> Option<ModelRecord> {
        if self.queue.is_empty() && self.made < self.records {
            self.delegation();
        }
        self.made += 1;
        self.queue.pop_front()
    }
}
