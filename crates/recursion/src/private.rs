//! Filters private addresses from upstream answers, against DNS rebinding.
//!
//! A web page on the Internet can have its own name resolve to an internal address, and then reach internal
//! hosts as the same origin. So upstream answers must not contain such addresses, except for exempt domains.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::message::{Parser, RawRecord};
use wire::{Class, LowerNameBuf, Malformed, Name, Prefix, Type};

use query_path::prefix::{LOOPBACK, PRIVATE, PrefixMasks, v4};

/// Settings of the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrivateConfig {
    /// The blocked prefixes. IPv4-mapped IPv6 counts as IPv4, here and in answers.
    pub blocks: Vec<Prefix>,
    /// Domains that may have such addresses, with all names below.
    pub exempt: Vec<LowerNameBuf>,
}

impl PrivateConfig {
    /// Prefixes that no host on the Internet uses: loopback (127.0.0.0/8, ::1), unspecified (0.0.0.0/8, ::),
    /// private (RFC 1918, RFC 6598, RFC 4193) and link-local (RFC 3927, RFC 4291 §2.5.6).
    pub fn usual_blocks() -> Vec<Prefix> {
        let unspecified = Prefix::of(Ipv6Addr::UNSPECIFIED.into(), 128);
        [v4([0, 0, 0, 0], 8)].into_iter().chain(unspecified).chain(LOOPBACK).chain(PRIVATE).collect()
    }
}

/// Finds private addresses in answers.
#[derive(Clone, Debug, Default)]
pub struct PrivateAddresses {
    blocks: PrefixMasks,
    exempt: Box<[LowerNameBuf]>,
}

impl PrivateAddresses {
    /// Compiles the settings.
    pub fn new(config: &PrivateConfig) -> Self {
        let blocks: Vec<Prefix> = config.blocks.iter().map(|block| block.to_canonical()).collect();
        PrivateAddresses { blocks: PrefixMasks::any(&blocks), exempt: config.exempt.clone().into() }
    }

    /// Whether the answer section has a private address in A, AAAA, SVCB or HTTPS (RFC 9460 §7.3) at a name
    /// that is not exempt. Also true for a malformed message.
    pub fn offends(&self, message: &[u8]) -> bool {
        self.find(message).unwrap_or(true)
    }

    fn find(&self, message: &[u8]) -> Result<bool, Malformed> {
        let (header, mut parser) = Parser::new(message)?;
        let [questions, answers, authorities, additional] = header.counts();
        for _ in 0..questions {
            parser.question()?;
        }
        let mut found = false;
        for _ in 0..answers {
            let record = parser.record()?;
            let rdata = message.get(record.rdata.clone()).ok_or(Malformed)?;
            found |= self.is_private(record.rtype, record.class, rdata)?
                && !self.is_exempt(&mut parser, &record)?;
        }
        for _ in 0..u32::from(authorities) + u32::from(additional) {
            parser.record()?;
        }
        if parser.at_end() { Ok(found) } else { Err(Malformed) }
    }

    /// Whether RDATA contains a private address.
    fn is_private(&self, rtype: Type, class: Class, rdata: &[u8]) -> Result<bool, Malformed> {
        match (class, rtype) {
            (Class::IN, Type::A) => Ok(self.is_in_block(v4_of(rdata.try_into().map_err(|_| Malformed)?))),
            (Class::IN, Type::AAAA) => Ok(self.is_in_block(v6_of(rdata.try_into().map_err(|_| Malformed)?))),
            (Class::IN, Type::SVCB | Type::HTTPS) => self.has_private_hint(rtype, rdata),
            _ => Ok(false),
        }
    }

    fn is_in_block(&self, address: IpAddr) -> bool {
        self.blocks.contains(address.to_canonical())
    }

    /// Whether the address hints of a service (RFC 9460 §7.3) contain a private address.
    fn has_private_hint(&self, rtype: Type, rdata: &[u8]) -> Result<bool, Malformed> {
        wire::rdata::validate(rtype, rdata)?;
        let (_priority, rest) = rdata.split_first_chunk::<2>().ok_or(Malformed)?;
        let target = Name::parse(rest).map_err(|_| Malformed)?;
        let mut params = rest.get(target.len()..).ok_or(Malformed)?;
        let mut found = false;
        while !params.is_empty() {
            let ([k0, k1, l0, l1], rest) = params.split_first_chunk().ok_or(Malformed)?;
            let len = u16::from_be_bytes([*l0, *l1]);
            let (value, rest) = rest.split_at_checked(len.into()).ok_or(Malformed)?;
            found |= match u16::from_be_bytes([*k0, *k1]) {
                IPV4HINT => value.as_chunks().0.iter().any(|bytes| self.is_in_block(v4_of(*bytes))),
                IPV6HINT => value.as_chunks().0.iter().any(|bytes| self.is_in_block(v6_of(*bytes))),
                _ => false,
            };
            params = rest;
        }
        Ok(found)
    }

    fn is_exempt(&self, parser: &mut Parser<'_>, record: &RawRecord) -> Result<bool, Malformed> {
        let owner = parser.name_at(record.owner_at)?.as_name().to_lower();
        Ok(self.exempt.iter().any(|domain| owner.as_lower().is_at_or_below(domain.as_lower())))
    }
}

/// SvcParamKey `ipv4hint` (RFC 9460 §14.3.2): a list of IPv4 addresses.
const IPV4HINT: u16 = 4;
/// SvcParamKey `ipv6hint`.
const IPV6HINT: u16 = 6;

fn v4_of(bytes: [u8; 4]) -> IpAddr {
    Ipv4Addr::from(bytes).into()
}

fn v6_of(bytes: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(bytes).into()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::LocalRecord;
    use wire::message::{Builder, Compressor, Header, Owner, Section};

    /// A response in the form that the resolver passes on, for a query such as `www.example. A`, with these
    /// records in the answer and authority sections.
    pub(crate) fn response(question: &str, answers: &[&str], authorities: &[&str]) -> Vec<u8> {
        let (name, qtype) = question.split_once(' ').expect("a name and a type");
        let mut header = Header::query(0);
        header.set_response(true);
        let (mut buf, mut names) = (vec![0; 4096], Compressor::small());
        let mut b = Builder::new(&mut buf, 4096, header, &mut names);
        let name: wire::NameBuf = name.parse().expect("a name");
        b.question(name.as_name(), qtype.parse().expect("a type"), Class::IN).expect("there is room");
        b.learn(name.as_name(), wire::message::Offset::QNAME);
        let answers = answers.iter().map(|line| (Section::Answer, line));
        for (section, line) in answers.chain(authorities.iter().map(|line| (Section::Authority, line))) {
            let LocalRecord { owner, rtype, ttl, rdata } = line.parse().expect("a record");
            b.record(section, Owner::Name(owner.as_name()), rtype, Class::IN, ttl, &rdata)
                .expect("there is room");
        }
        let len = b.finish();
        buf.truncate(len);
        buf
    }

    fn usual(exempt: &[&str]) -> PrivateAddresses {
        let exempt =
            exempt.iter().map(|text| text.parse::<wire::NameBuf>().expect("a name").as_name().to_lower());
        PrivateAddresses::new(&PrivateConfig {
            blocks: PrivateConfig::usual_blocks(),
            exempt: exempt.collect(),
        })
    }

    #[test]
    fn private_addresses_offend_in_every_form() {
        for data in [
            "A 10.1.2.3",
            "A 172.31.255.255",
            "A 192.168.0.1",
            "A 127.0.0.53",
            "A 0.0.0.0",
            "A 169.254.1.1",
            "A 100.127.0.1",
            "AAAA ::1",
            "AAAA ::",
            "AAAA fd00::1",
            "AAAA fe80::1",
            "AAAA ::ffff:10.0.0.1",
            "HTTPS 1 . alpn=h2 ipv4hint=192.0.2.1,192.168.1.1",
            "HTTPS 1 . ipv4hint=192.0.2.1 ipv6hint=2001:db8::1,fd00::1",
            "SVCB 1 svc.example. ipv6hint=::ffff:10.0.0.1",
        ] {
            let message = response("www.example. A", &[&format!("www.example. 60 {data}")], &[]);
            assert!(usual(&[]).offends(&message), "{data}");
            assert!(!usual(&["other.", "example."]).offends(&message), "{data}");
            assert!(!PrivateAddresses::default().offends(&message), "{data}");
        }
    }

    #[test]
    fn other_addresses_do_not() {
        for data in [
            "A 11.0.0.1",
            "A 172.32.0.0",
            "A 100.128.0.1",
            "AAAA 2001:db8::1",
            "AAAA ::ffff:192.0.2.1",
            "HTTPS 1 . ipv4hint=192.0.2.1 ipv6hint=2001:db8::1",
            "HTTPS 0 other.example.",
            "TXT 10.0.0.1",
        ] {
            let message = response("www.example. A", &[&format!("www.example. 60 {data}")], &[]);
            assert!(!usual(&[]).offends(&message), "{data}");
        }
    }

    #[test]
    fn the_owner_of_the_address_decides_not_the_name_asked_for() {
        let message = response(
            "www.evil.example. A",
            &["www.evil.example. 60 CNAME host.Corp.example.", "host.Corp.example. 60 A 10.0.0.1"],
            &[],
        );
        assert!(!usual(&["corp.example."]).offends(&message));
        assert!(usual(&["evil.example."]).offends(&message));
        assert!(usual(&["t.corp.example."]).offends(&message));
    }

    #[test]
    fn mapped_blocks_are_those_of_ipv4() {
        let blocks = vec!["::ffff:192.0.2.0/120".parse().expect("a network")];
        let all = PrivateAddresses::new(&PrivateConfig { blocks, exempt: Vec::new() });
        assert!(all.offends(&response("a. A", &["a. 1 A 192.0.2.9"], &[])));
        assert!(all.offends(&response("a. A", &["a. 1 AAAA ::ffff:192.0.2.9"], &[])));
        assert!(!all.offends(&response("a. A", &["a. 1 A 192.0.3.9"], &[])));
    }

    #[test]
    fn what_breaks_off_offends_wherever_it_does() {
        let message = response(
            "www.example. A",
            &["www.example. 60 A 192.0.2.1", "www.example. 60 HTTPS 1 . ipv4hint=192.0.2.1"],
            &["example. 60 SOA a. b. 1 2 3 4 5"],
        );
        assert!(!usual(&[]).offends(&message));
        assert!((0..message.len()).all(|end| usual(&[]).offends(&message[..end])));
        assert!(usual(&[]).offends(&[&message[..], &[0]].concat()));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_asked_about(message: Vec<u8>, at: prop::sample::Index, byte: u8) {
            usual(&["example."]).offends(&message);
            let mut changed =
                response("www.example. A", &["www.example. 60 HTTPS 1 . ipv4hint=192.0.2.1"], &[]);
            *at.get_mut(&mut changed) = byte;
            usual(&["example."]).offends(&changed);
        }
    }
}
