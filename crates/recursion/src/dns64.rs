//! DNS64: AAAA records synthesized from A records, for IPv6-only clients of IPv4-only servers (RFC 6147).
//!
//! An IPv4 address is embedded in a prefix that a translator (NAT64) serves (RFC 6052 §2.2). Synthesized
//! records are in no zone, so signatures cannot cover them; clients that validate, with DO and CD set, get
//! none.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::message::{
    Builder, Compressor, HEADER_LEN, MAX_MESSAGE, Offset, Owner, Parser, QUESTION_TAIL, RECORD_HEAD, Section,
};
use wire::{Class, Header, LowerName, LowerNameBuf, Malformed, NameBuf, Prefix, Rcode, Ttl, Type};

use query_path::prefix::{PrefixMasks, v4};

/// Settings of DNS64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns64Config {
    /// The prefix for embedding: IPv6, length 32, 40, 48, 56, 64 or 96, with bits 64 to 71 set to 0 (RFC 6052
    /// §2.2).
    pub prefix: Prefix,
    /// The clients that DNS64 applies to; empty for all. IPv4-mapped IPv6 counts as IPv4.
    pub clients: Vec<Prefix>,
    /// IPv6 addresses that are ignored (RFC 6147 §5.1.4).
    pub exclude: Vec<Prefix>,
    /// IPv4 addresses that are not embedded.
    pub exclude_v4: Vec<Prefix>,
    /// Whether non-global addresses are also embedded in the well-known prefix `64:ff9b::/96`, which RFC 6052
    /// §3.1 forbids.
    pub non_global: bool,
}

impl Dns64Config {
    /// Default settings with this prefix: for all clients; AAAA records with IPv4-mapped addresses are
    /// ignored.
    pub fn new(prefix: Prefix) -> Self {
        let mapped = Prefix::of(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().into(), 96);
        Dns64Config {
            prefix,
            clients: Vec::new(),
            exclude: mapped.into_iter().collect(),
            exclude_v4: Vec::new(),
            non_global: false,
        }
    }
}

/// The result of synthesis for an IPv4 address, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dns64Made {
    /// The IPv6 address that embeds it.
    Address(Ipv6Addr),
    /// Excluded by the operator.
    Excluded,
    /// Not global, and the prefix is the well-known one (RFC 6052 §3.1).
    NotGlobal,
}

/// Why settings are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dns64Fault {
    /// The prefix is IPv4.
    PrefixFamily(Prefix),
    /// The prefix length is not one of RFC 6052 §2.2.
    PrefixLength(Prefix),
    /// Bits 64 to 71 of the prefix are not 0 (RFC 6052 §2.2).
    ReservedBits(Prefix),
    /// An excluded IPv6 prefix is IPv4.
    ExcludeFamily(Prefix),
    /// An excluded IPv4 prefix is IPv6.
    ExcludeV4Family(Prefix),
}

impl fmt::Display for Dns64Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrefixFamily(prefix) => write!(f, "{prefix} is not an IPv6 network"),
            Self::PrefixLength(prefix) => {
                write!(f, "{prefix}: the length must be 32, 40, 48, 56, 64 or 96")
            }
            Self::ReservedBits(prefix) => write!(f, "{prefix}: bits 64 to 71 must be 0"),
            Self::ExcludeFamily(prefix) => write!(f, "{prefix} is not an IPv6 network"),
            Self::ExcludeV4Family(prefix) => write!(f, "{prefix} is not an IPv4 network"),
        }
    }
}
impl std::error::Error for Dns64Fault {}

/// Index of the address byte with bits 64 to 71, the octet "u", which is 0 (RFC 6052 §2.2).
const U: usize = 8;

/// The Well-Known Prefix (RFC 6052 §2.1); its length is 96.
const WELL_KNOWN: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// Non-global addresses, which the well-known prefix must not embed (RFC 6052 §3.1): those of RFC 5735 §3,
/// and RFC 6598. 192.0.0.0/24 is not among them: clients discover the prefix by 192.0.0.170 and 192.0.0.171
/// embedded in it (RFC 7050 §2.2).
const NOT_GLOBAL: [Prefix; 13] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 2, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// Highest TTL of synthesized records, in seconds, if the response to the AAAA query has no SOA (RFC 6147
/// §5.1.7).
const TTL_WITHOUT_SOA: u32 = 600;

/// Compiled settings. The caller must not pass in queries with DO and CD set (RFC 6147 §5.5).
#[derive(Clone, Debug)]
pub struct Dns64 {
    prefix: [u8; 16],
    /// Length of the prefix in bytes.
    len: usize,
    clients: Option<PrefixMasks>,
    exclude: PrefixMasks,
    exclude_v4: PrefixMasks,
    /// Addresses that must not be embedded in the prefix.
    not_global: Option<PrefixMasks>,
}

impl Dns64 {
    /// Compiles settings.
    ///
    /// # Errors
    /// [`Dns64Fault`]
    pub fn new(config: &Dns64Config) -> Result<Dns64, Dns64Fault> {
        let prefix = config.prefix;
        let IpAddr::V6(address) = prefix.address() else { return Err(Dns64Fault::PrefixFamily(prefix)) };
        if !matches!(prefix.len(), 32 | 40 | 48 | 56 | 64 | 96) {
            return Err(Dns64Fault::PrefixLength(prefix));
        }
        if address.octets().get(U) != Some(&0) {
            return Err(Dns64Fault::ReservedBits(prefix));
        }
        if let Some(other) = config.exclude.iter().find(|prefix| prefix.address().is_ipv4()) {
            return Err(Dns64Fault::ExcludeFamily(*other));
        }
        let exclude_v4: Vec<Prefix> = config.exclude_v4.iter().map(|prefix| prefix.to_canonical()).collect();
        if let Some(other) = exclude_v4.iter().find(|prefix| prefix.address().is_ipv6()) {
            return Err(Dns64Fault::ExcludeV4Family(*other));
        }
        let global_only = (address, prefix.len()) == (WELL_KNOWN, 96) && !config.non_global;
        let clients: Vec<Prefix> = config.clients.iter().map(|prefix| prefix.to_canonical()).collect();
        Ok(Dns64 {
            prefix: address.octets(),
            len: usize::from(prefix.len() / 8),
            clients: Some(PrefixMasks::any(&clients)).filter(|_| !clients.is_empty()),
            exclude: PrefixMasks::any(&config.exclude),
            exclude_v4: PrefixMasks::any(&exclude_v4),
            not_global: global_only.then(|| PrefixMasks::any(&NOT_GLOBAL)),
        })
    }

    /// Whether DNS64 applies to a client.
    #[inline]
    pub fn applies_to(&self, client: IpAddr) -> bool {
        self.clients.as_ref().is_none_or(|clients| clients.contains(client.to_canonical()))
    }

    /// Whether a response to an AAAA query is to be replaced by a synthesized one: NOERROR without AAAA
    /// records (RFC 6147 §5.1.1), or all AAAA records are ignored (§5.1.4). Not for NXDOMAIN (§5.1.2). After
    /// an error or a timeout the caller decides (§5.1.2, §5.1.3).
    ///
    /// The response has the form described at [`synthesize`](Self::synthesize); `false` if it is malformed.
    pub fn wants_synthesis(&self, aaaa_response: &[u8]) -> bool {
        let Ok(response) = Response::read(aaaa_response, Type::AAAA) else { return false };
        let usable =
            |record: &Record| record.aaaa().is_some_and(|address| !self.exclude.contains(address.into()));
        response.header.rcode() == Rcode::NOERROR && !response.records.iter().any(usable)
    }

    /// Returns the response to an AAAA query without the ignored addresses, if it has both ignored and usable
    /// ones (RFC 6147 §5.1.4). The signatures are removed, too, and AD is clear. `None`: it can stay as it
    /// is, or it is malformed.
    pub fn without_excluded(&self, aaaa_response: &[u8]) -> Option<Vec<u8>> {
        let mut response = Response::read(aaaa_response, Type::AAAA).ok()?;
        let all = response.records.len();
        let is_excluded =
            |record: &Record| record.aaaa().is_some_and(|address| self.exclude.contains(address.into()));
        response.records.retain(|record| !is_excluded(record));
        let changed = response.records.len() < all;
        let usable = response.records.iter().any(|record| record.aaaa().is_some());
        response.records.retain(|record| record.rtype != Type::RRSIG);
        if changed && usable { response.write() } else { None }
    }

    /// Synthesizes the response to an AAAA query from the response to the A query (RFC 6147 §5.1.6, §5.1.7).
    ///
    /// Both are whole messages with an uncompressed question at [`Offset::QNAME`]. The aliases of the answer
    /// section are kept, and each A record becomes an AAAA record; signatures and all other sections are left
    /// out, AD and AA are clear. `aaaa_negative_ttl` is the TTL in seconds of the SOA in the negative
    /// response to the AAAA query: no AAAA record has a higher one. Without it the limit is 600.
    ///
    /// `None` if there is no A record that may be embedded, or the response is malformed: then the client
    /// gets the response to its own query (§5.1.6).
    pub fn synthesize(&self, a_response: &[u8], aaaa_negative_ttl: Option<u32>) -> Option<Vec<u8>> {
        let mut response = Response::read(a_response, Type::A).ok()?;
        if response.header.rcode() != Rcode::NOERROR {
            return None;
        }
        let most = Ttl::from_secs(aaaa_negative_ttl.unwrap_or(TTL_WITHOUT_SOA));
        let mut made = 0;
        response.records.retain_mut(|record| match record.a().map(|address| self.made_of(address)) {
            Some(Dns64Made::Address(address)) => {
                made += 1;
                record.rtype = Type::AAAA;
                record.ttl = record.ttl.min(most);
                record.rdata = address.octets().into();
                true
            }
            Some(Dns64Made::Excluded | Dns64Made::NotGlobal) => false,
            None => matches!(record.rtype, Type::CNAME | Type::DNAME),
        });
        response.qtype = Type::AAAA;
        if made > 0 { response.write() } else { None }
    }

    /// Returns the `in-addr.arpa` name for an `ip6.arpa` name whose address embeds an IPv4 address (RFC 6147
    /// §5.3.1). `None` for all other names, also those with fewer labels than a full address has.
    pub fn ptr_target(&self, qname: LowerName<'_>) -> Option<LowerNameBuf> {
        const NIBBLES: usize = 32;
        let end = qname.as_name().skip(NIBBLES);
        if end.as_wire() != b"\x03ip6\x04arpa\0" {
            return None;
        }
        let mut bits = 0;
        for (label, place) in qname.labels().zip(0..NIBBLES) {
            let [digit] = *label else { return None };
            bits |= u128::from(char::from(digit).to_digit(16)?) << (4 * place);
        }
        let [a, b, c, d] = self.extract(Ipv6Addr::from_bits(bits))?.octets();
        let name: NameBuf = format!("{d}.{c}.{b}.{a}.in-addr.arpa.").parse().ok()?;
        Some(name.as_name().to_lower())
    }

    /// Returns the IPv4 addresses of a response to an A query, each with the result of synthesis. Empty if it
    /// is malformed.
    pub fn made_of_all(&self, a_response: &[u8]) -> Vec<(Ipv4Addr, Dns64Made)> {
        let records =
            Response::read(a_response, Type::A).map(|response| response.records).unwrap_or_default();
        let addresses = records.iter().filter_map(Record::a);
        addresses.map(|address| (address, self.made_of(address))).collect()
    }

    /// Embeds an IPv4 address behind the prefix, around the octet "u" (RFC 6052 §2.2), if it may be embedded.
    fn made_of(&self, address: Ipv4Addr) -> Dns64Made {
        if self.exclude_v4.contains(address.into()) {
            return Dns64Made::Excluded;
        }
        if self.not_global.as_ref().is_some_and(|networks| networks.contains(address.into())) {
            return Dns64Made::NotGlobal;
        }
        let mut bytes = self.prefix;
        let places = bytes.iter_mut().enumerate().skip(self.len).filter(|(at, _)| *at != U);
        places.zip(address.octets()).for_each(|((_, to), byte)| *to = byte);
        Dns64Made::Address(bytes.into())
    }

    /// Returns the IPv4 address embedded in an address with the prefix. The bits behind it are ignored.
    fn extract(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let bytes = address.octets();
        if bytes.get(..self.len)? != self.prefix.get(..self.len)? {
            return None;
        }
        let mut embedded = [0; 4];
        let places = bytes.iter().enumerate().skip(self.len).filter(|(at, _)| *at != U);
        embedded.iter_mut().zip(places).for_each(|(to, (_, byte))| *to = *byte);
        Some(embedded.into())
    }
}

/// The parts of a response, to one question of class IN, that synthesis uses.
struct Response {
    header: Header,
    qname: NameBuf,
    qtype: Type,
    /// The answer section.
    records: Vec<Record>,
}

/// A record of class IN, its data uncompressed and well formed.
struct Record {
    owner: NameBuf,
    rtype: Type,
    ttl: Ttl,
    rdata: Vec<u8>,
}

impl Response {
    fn read(message: &[u8], qtype: Type) -> Result<Self, Malformed> {
        let (header, mut parser) = Parser::new(message)?;
        let [questions, answers, _, _] = header.counts();
        let question = parser.question()?;
        if questions != 1 || (question.qtype, question.qclass) != (qtype, Class::IN) {
            return Err(Malformed);
        }
        let mut records = Vec::new();
        for _ in 0..answers {
            let raw = parser.record()?;
            let mut rdata = Vec::new();
            parser.expand_rdata(&raw, &mut rdata)?;
            wire::rdata::validate(raw.rtype, &rdata)?;
            let owner = parser.name_at(raw.owner_at)?;
            if raw.class == Class::IN {
                records.push(Record { owner, rtype: raw.rtype, ttl: raw.ttl(), rdata });
            }
        }
        Ok(Response { header, qname: question.name.to_buf(), qtype, records })
    }

    /// Returns the message, with AD and AA clear. `None` if it exceeds 65,535 bytes.
    fn write(&self) -> Option<Vec<u8>> {
        let mut header = self.header;
        header.set_authentic_data(false);
        header.set_authoritative(false);
        let qname = self.qname.as_name();
        let lens =
            self.records.iter().map(|record| record.owner.as_name().len() + RECORD_HEAD + record.rdata.len());
        let room = (HEADER_LEN + qname.len() + QUESTION_TAIL + lens.sum::<usize>()).min(MAX_MESSAGE);
        let (mut buf, mut names) = (vec![0; room], Compressor::large());
        let mut b = Builder::new(&mut buf, room, header, &mut names);
        b.question(qname, self.qtype, Class::IN).ok()?;
        b.learn(qname, Offset::QNAME);
        for Record { owner, rtype, ttl, rdata } in &self.records {
            let owner = Owner::Name(owner.as_name());
            b.record(Section::Answer, owner, *rtype, Class::IN, *ttl, rdata).ok()?;
        }
        let len = b.finish();
        buf.truncate(len);
        Some(buf)
    }
}

impl Record {
    fn a(&self) -> Option<Ipv4Addr> {
        let bytes: [u8; 4] = self.rdata.as_slice().try_into().ok()?;
        Some(bytes.into()).filter(|_| self.rtype == Type::A)
    }

    fn aaaa(&self) -> Option<Ipv6Addr> {
        let bytes: [u8; 16] = self.rdata.as_slice().try_into().ok()?;
        Some(bytes.into()).filter(|_| self.rtype == Type::AAAA)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Dns64 {
        fn embed(&self, address: Ipv4Addr) -> Option<Ipv6Addr> {
            match self.made_of(address) {
                Dns64Made::Address(made) => Some(made),
                Dns64Made::Excluded | Dns64Made::NotGlobal => None,
            }
        }
    }

    #[test]
    fn why_nothing_is_made_of_an_address_is_said_and_the_operator_may_have_it_made() {
        let prefix = "64:ff9b::/96".parse().expect("a network");
        let exclude_v4 = vec!["192.0.2.0/24".parse().expect("a network")];
        let config = Dns64Config { exclude_v4, ..Dns64Config::new(prefix) };
        let made = |config: &Dns64Config, text: &str| {
            Dns64::new(config).expect("good").made_of(text.parse().expect("an address"))
        };
        let embedded = |text: &str| Dns64Made::Address(text.parse().expect("an address"));
        assert_eq!(made(&config, "8.8.8.8"), embedded("64:ff9b::808:808"));
        assert_eq!(made(&config, "10.0.0.1"), Dns64Made::NotGlobal);
        assert_eq!(made(&config, "192.0.2.1"), Dns64Made::Excluded);
        let all = Dns64Config { non_global: true, ..config.clone() };
        assert_eq!(made(&all, "10.0.0.1"), embedded("64:ff9b::a00:1"));
        assert_eq!(made(&all, "192.0.2.1"), Dns64Made::Excluded);
        let own = Dns64Config { prefix: "2001:db8:64::/96".parse().expect("a network"), ..config };
        assert_eq!(made(&own, "10.0.0.1"), embedded("2001:db8:64::a00:1"));
    }

    use crate::private::tests::response;

    fn network(text: &str) -> Prefix {
        text.parse().expect("a network")
    }

    fn dns64(prefix: &str) -> Dns64 {
        Dns64::new(&Dns64Config::new(network(prefix))).expect("a prefix")
    }

    /// The answer section's records as text, the AD flag, and QTYPE.
    fn text(message: &[u8]) -> (Vec<String>, bool, Type) {
        let question =
            Parser::new(message).and_then(|(_, mut parser)| parser.question()).expect("a question");
        let response = Response::read(message, question.qtype).expect("a response");
        let line = |Record { owner, rtype, ttl, rdata }: &Record| {
            let mut data = String::new();
            wire::rdata::write_text(*rtype, rdata, &mut data).expect("text");
            format!("{owner} {ttl} {rtype} {data}")
        };
        let records = response.records.iter().map(line).collect();
        (records, response.header.authentic_data(), question.qtype)
    }

    /// RFC 6052 §2.4, table 2, and the well-known prefix of table 3 with a global address.
    #[test]
    fn addresses_are_embedded_as_in_the_tables_of_the_rfc() {
        let address = Ipv4Addr::new(192, 0, 2, 33);
        for (prefix, embedded) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let embedded: Ipv6Addr = embedded.parse().expect("an address");
            assert_eq!(dns64(prefix).embed(address), Some(embedded), "{prefix}");
            assert_eq!(dns64(prefix).extract(embedded), Some(address), "{prefix}");
        }
        let known = dns64("64:ff9b::/96");
        let of =
            |text: &str| known.embed(text.parse().expect("an address")).map(|address| address.to_string());
        assert_eq!(of("8.8.8.8"), Some("64:ff9b::808:808".into()));
        assert_eq!(of("192.0.0.170"), Some("64:ff9b::c000:aa".into()));
        for private in
            ["10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "169.254.0.1", "192.0.2.33", "224.0.0.1"]
        {
            assert_eq!(of(private), None, "{private}");
        }
    }

    #[test]
    fn each_fault_of_the_settings_has_its_name() {
        let fault = |prefix: &str| Dns64::new(&Dns64Config::new(network(prefix))).err();
        assert_eq!(fault("192.0.2.0/24"), Some(Dns64Fault::PrefixFamily(network("192.0.2.0/24"))));
        assert_eq!(fault("2001:db8::/33"), Some(Dns64Fault::PrefixLength(network("2001:db8::/33"))));
        let reserved = "2001:db8:0:0:100::/96";
        assert_eq!(fault(reserved), Some(Dns64Fault::ReservedBits(network(reserved))));
        let mut config = Dns64Config::new(network("2001:db8::/96"));
        config.exclude.push(network("192.0.2.0/24"));
        assert_eq!(Dns64::new(&config).err(), Some(Dns64Fault::ExcludeFamily(network("192.0.2.0/24"))));
        let mut config = Dns64Config::new(network("2001:db8::/96"));
        config.exclude_v4.push(network("2001:db8::/32"));
        assert_eq!(Dns64::new(&config).err(), Some(Dns64Fault::ExcludeV4Family(network("2001:db8::/32"))));
    }

    #[test]
    fn clients_are_all_or_those_in_the_list() {
        let mut config = Dns64Config::new(network("2001:db8::/96"));
        let client = |text: &str| text.parse().expect("an address");
        assert!(Dns64::new(&config).expect("good settings").applies_to(client("192.0.2.1")));
        config.clients = vec![network("2001:db8:1::/48"), network("::ffff:192.0.2.0/120")];
        let some = Dns64::new(&config).expect("good settings");
        assert!(some.applies_to(client("2001:db8:1::1")) && some.applies_to(client("192.0.2.1")));
        assert!(!some.applies_to(client("2001:db8:2::1")) && !some.applies_to(client("::ffff:192.0.3.1")));
    }

    #[test]
    fn synthesis_is_for_names_without_usable_addresses() {
        let dns64 = dns64("64:ff9b::/96");
        let asked = |answers: &[&str]| dns64.wants_synthesis(&response("www.example. AAAA", answers, &[]));
        assert!(asked(&[]));
        assert!(asked(&["www.example. 60 CNAME web.example."]));
        assert!(asked(&["www.example. 60 AAAA ::ffff:192.0.2.1"]));
        assert!(!asked(&["www.example. 60 AAAA 2001:db8::1"]));
        assert!(!asked(&["www.example. 60 AAAA ::ffff:192.0.2.1", "www.example. 60 AAAA 2001:db8::1"]));
        assert!(!asked(&["www.example. 60 CNAME web.example.", "web.example. 60 AAAA 2001:db8::1"]));
        assert!(!dns64.wants_synthesis(&response("www.example. A", &[], &[])));
        for (rcode, wanted) in [(Rcode::NOERROR, true), (Rcode::NXDOMAIN, false), (Rcode::SERVFAIL, false)] {
            let mut message = response("www.example. AAAA", &[], &["example. 60 SOA a. b. 1 2 3 4 5"]);
            let mut header = Header::of(&message).expect("a header");
            header.set_rcode(rcode);
            message[..HEADER_LEN].copy_from_slice(header.as_bytes());
            assert_eq!(dns64.wants_synthesis(&message), wanted, "{rcode}");
        }
    }

    #[test]
    fn addresses_that_count_as_none_are_taken_out_from_among_others() {
        let dns64 = dns64("64:ff9b::/96");
        let of = |answers: &[&str]| dns64.without_excluded(&response("www.example. AAAA", answers, &[]));
        let mixed = of(&["www.example. 60 AAAA ::ffff:192.0.2.1", "www.example. 60 AAAA 2001:db8::1"]);
        let kept = vec!["www.example. 60 AAAA 2001:db8::1".to_owned()];
        assert_eq!(mixed.map(|message| text(&message).0), Some(kept));
        assert_eq!(of(&["www.example. 60 AAAA 2001:db8::1"]), None);
        assert_eq!(of(&["www.example. 60 AAAA ::ffff:192.0.2.1"]), None);
    }

    #[test]
    fn a_made_response_keeps_aliases_and_has_no_signatures() {
        let sig = "A 8 2 300 20300101000000 20200101000000 1 example. AAAA";
        let mut message = response(
            "www.a.example. A",
            &[
                "a.example. 900 DNAME B.example.",
                "www.a.example. 900 CNAME www.B.example.",
                "www.B.example. 300 A 8.8.8.8",
                "www.B.example. 300 A 10.0.0.1",
                "www.B.example. 30 A 8.8.4.4",
                &format!("www.B.example. 300 RRSIG {sig}"),
            ],
            &["example. 60 NS ns.example."],
        );
        let mut header = Header::of(&message).expect("a header");
        header.set_authentic_data(true);
        message[..HEADER_LEN].copy_from_slice(header.as_bytes());
        let made = dns64("64:ff9b::/96").synthesize(&message, Some(100)).expect("there are addresses");
        let records = [
            "a.example. 900 DNAME B.example.",
            "www.a.example. 900 CNAME www.B.example.",
            "www.B.example. 100 AAAA 64:ff9b::808:808",
            "www.B.example. 30 AAAA 64:ff9b::808:404",
        ];
        assert_eq!(text(&made), (records.map(str::to_owned).to_vec(), false, Type::AAAA));
        let header = Header::of(&made).expect("a header");
        assert_eq!((header.counts(), header.is_response()), ([1, 4, 0, 0], true));
    }

    #[test]
    fn without_an_soa_addresses_are_kept_for_ten_minutes_at_most() {
        let message =
            response("www.example. A", &["www.example. 3600 A 8.8.8.8", "www.example. 60 A 8.8.4.4"], &[]);
        let made = dns64("64:ff9b::/96").synthesize(&message, None).expect("there are addresses");
        let records = ["www.example. 600 AAAA 64:ff9b::808:808", "www.example. 60 AAAA 64:ff9b::808:404"];
        assert_eq!(text(&made).0, records);
    }

    #[test]
    fn nothing_is_made_where_no_address_may_be_embedded() {
        let known = dns64("64:ff9b::/96");
        assert_eq!(known.synthesize(&response("a. A", &["a. 60 A 192.168.1.1"], &[]), None), None);
        assert_eq!(known.synthesize(&response("a. A", &["a. 60 CNAME b."], &[]), None), None);
        assert_eq!(known.synthesize(&response("a. AAAA", &["a. 60 A 8.8.8.8"], &[]), None), None);
        let mut config = Dns64Config::new(network("2001:db8::/96"));
        config.exclude_v4 = vec![network("8.8.8.0/24")];
        let own = Dns64::new(&config).expect("good settings");
        let made = own.synthesize(&response("a. A", &["a. 60 A 8.8.8.8", "a. 60 A 192.168.1.1"], &[]), None);
        assert_eq!(made.map(|made| text(&made).0), Some(vec!["a. 60 AAAA 2001:db8::c0a8:101".to_owned()]));
    }

    /// The `ip6.arpa` name of an address.
    fn reverse(address: Ipv6Addr) -> LowerNameBuf {
        let nibbles: String = (0..32).map(|n| format!("{:x}.", address.to_bits() >> (4 * n) & 0xf)).collect();
        format!("{nibbles}ip6.arpa.").parse::<NameBuf>().expect("a name").as_name().to_lower()
    }

    #[test]
    fn reverse_names_below_the_prefix_lead_to_those_of_ipv4() {
        let known = dns64("64:ff9b::/96");
        let target = known.ptr_target(reverse("64:ff9b::192.0.2.33".parse().expect("an address")).as_lower());
        assert_eq!(target.map(|name| name.to_string()), Some("33.2.0.192.in-addr.arpa.".into()));
        assert_eq!(
            known.ptr_target(reverse("64:ff9c::192.0.2.33".parse().expect("an address")).as_lower()),
            None
        );
        let whole = reverse("64:ff9b::1".parse().expect("an address"));
        let shorter = whole.as_lower().parent().expect("an ancestor").to_buf();
        let longer = NameBuf::prepend(b"1", whole.as_name()).expect("a name").as_name().to_lower();
        let other = NameBuf::replace_suffix(whole.as_name(), 1, wire::Name::ROOT)
            .expect("a name")
            .as_name()
            .to_lower();
        for name in [shorter, longer, other, LowerNameBuf::ROOT] {
            assert_eq!(known.ptr_target(name.as_lower()), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_embedded_comes_out_again(
            bits: u128,
            len in prop::sample::select(vec![32u8, 40, 48, 56, 64, 96]),
            address: u32,
        ) {
            let free_of_u = bits & !(0xff << 56);
            let prefix = Prefix::of(Ipv6Addr::from_bits(free_of_u).into(), len).expect("a network");
            let dns64 = Dns64::new(&Dns64Config::new(prefix)).expect("a prefix");
            let address = Ipv4Addr::from_bits(address);
            let Some(embedded) = dns64.embed(address) else { return Ok(()) };
            prop_assert!(prefix.contains(embedded.into()));
            prop_assert_eq!(embedded.octets()[U], 0);
            prop_assert_eq!(dns64.extract(embedded), Some(address));
            let [a, b, c, d] = address.octets();
            let target = dns64.ptr_target(reverse(embedded).as_lower()).map(|name| name.to_string());
            prop_assert_eq!(target, Some(format!("{d}.{c}.{b}.{a}.in-addr.arpa.")));
        }

        #[test]
        fn any_bytes_can_be_asked_about(message: Vec<u8>, at: prop::sample::Index, byte: u8) {
            let known = dns64("64:ff9b::/96");
            let mut changed = response(
                "a.example. A",
                &["a.example. 60 CNAME b.example.", "b.example. 60 A 8.8.8.8"],
                &[],
            );
            *at.get_mut(&mut changed) = byte;
            for message in [&message, &changed] {
                known.wants_synthesis(message);
                known.without_excluded(message);
                if let Some(made) = known.synthesize(message, None) {
                    prop_assert!(Response::read(&made, Type::AAAA).is_ok());
                }
            }
        }

        #[test]
        fn any_name_can_be_asked_for(labels in prop::collection::vec("[0-9a-f]", 28..36)) {
            let name: NameBuf = format!("{}.ip6.arpa.", labels.join(".")).parse().expect("a name");
            let all = Dns64::new(&Dns64Config::new(network("::/32"))).expect("a prefix");
            let target = all.ptr_target(name.as_name().to_lower().as_lower());
            prop_assert!(target.is_none() || labels.len() == 32);
        }
    }
}
