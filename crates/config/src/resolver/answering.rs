//! Keys of `[resolver]` about answers: from the cache, from local data, and with which addresses.

use std::collections::HashSet;

use recursion::{
    Dns64, Dns64Config, Dns64Fault, LocalConfig, LocalRecord, PrivateConfig, SpecialName, SpecialOff,
};
use toml::Spanned;
use toml::de::DeValue;
use wire::{LowerNameBuf, NameBuf, Prefix};

use super::networks::NetworkOr;
use crate::report::{ConfigPlace, Diagnostic};
use crate::table::keys;
use crate::table::read::{At, Reader};
use crate::table::value::{Int, Seconds, Size, Time, Value, Word, quote};
use wording::did_you_mean;

keys! {
    /// Keys about answers from the cache.
    pub struct Serving {
        /// Time after which a client gets an expired answer while servers are still queried (RFC 8767 §5).
        /// Without effect if `serve-stale` is "0s".
        live "stale-after" stale_after: Time<0, 60_000> = Time(std::time::Duration::from_millis(1800)),
            example "1s";
        /// Time after a failure in which clients get an expired answer at once and no server is queried; for
        /// as long again, they get it at once while servers are queried (RFC 8767 §5). "0s": each client
        /// waits for `stale-after`.
        live "stale-refresh-time" stale_refresh: Seconds<0, 3600> = Seconds(30), example "1m";
        /// Refresh popular answers before they expire, so that no client waits for them.
        live "prefetch" prefetch: bool = true, example false;
        /// Answer NXDOMAIN for names below one for which NXDOMAIN is cached (RFC 8020).
        live "nxdomain-cut" nxdomain_cut: bool = true, example false;
        /// Synthesize negative answers from cached NSEC and NSEC3 records of validated answers, and positive
        /// ones from cached wildcards (RFC 8198), without a query to other servers. NSEC3 with opt-out is not
        /// used. A cached, validated DNAME redirects all names below it likewise (RFC 6672 §3.4).
        live "aggressive-nsec" aggressive_nsec: bool = true, example false;
        /// Memory for these NSEC, NSEC3 and wildcard records; the oldest are evicted first.
        live "aggressive-nsec-size" denials: Size<{ 64 << 10 }, { 1 << 30 }> = Size(16 << 20),
            example "64MiB";
        /// Most CNAME records followed for one answer from the names of one rule to those of another, or, in
        /// iterative resolution, from one zone to another.
        live "max-rule-chain" max_rule_chain: Int<u8, 1, 64> = Int(8), example 12;
    }
}

keys! {
    /// Keys about names that are answered locally.
    pub struct LocalNameKeys {
        /// Answer special-use names locally, which do not exist in the public DNS: `localhost`, `test`,
        /// `home.arpa`, the reverse zones of private networks, and others (RFC 6761, RFC 6303). Those at,
        /// above or below the domain of a rule go to its servers, unless that domain is ".".
        live "special-names" special_names: bool = true, example false;
        /// Special-use names that are resolved like any other name.
        live "special-names-off" special_names_off: Option<Vec<At<NameBuf>>> = None, example ["home.arpa"];
        /// Records that are answered locally, each written as a line of a zone file. A leading `*` label
        /// matches all names below that have no records of their own.
        live "local-data" local_data: Option<Vec<At<LocalLine>>> = None,
            example ["printer.lan. 300 A 192.0.2.5"];
    }
}

keys! {
    /// Keys about private addresses in answers of other servers.
    pub struct PrivateAnswers {
        /// Networks whose addresses must not occur in answers of other servers; such answers are withheld, so
        /// that a web page from outside cannot reach internal hosts (DNS rebinding). "usual" means all
        /// private, loopback and link-local networks. If an upstream server, such as a home router, answers
        /// for internal hosts, leave this unset or list their domain in `private-domains`.
        live "private-addresses" addresses: Option<Vec<At<NetworkOr<Usual>>>> = None,
            example ["usual", "203.0.113.0/24"];
        /// Domains whose names may have addresses in `private-addresses`.
        live "private-domains" domains: Option<Vec<At<NameBuf>>> = None, example ["corp.example"];
    }
}

keys! {
    /// Keys about AAAA records synthesized from A records (DNS64).
    pub struct Synthesis {
        /// IPv6 prefix of a translator (NAT64), of 32, 40, 48, 56, 64 or 96 bits. For names without AAAA
        /// records, AAAA records are synthesized from their A records (DNS64, RFC 6147). Unset: DNS64 is off.
        live "dns64-prefix" prefix: Option<Prefix> = None, example "64:ff9b::/96";
        /// Clients that get synthesized AAAA records. Unset: all.
        live "dns64-clients" clients: Option<Vec<At<Prefix>>> = None, example ["2001:db8::/32"];
        /// IPv6 networks whose AAAA records are ignored, as if the name had none (RFC 6147 §5.1.4).
        live "dns64-exclude" exclude: Vec<At<Prefix>> = usually_excluded(),
            example ["::ffff:0:0/96", "2001:db8:1::/48"];
        /// IPv4 networks for whose addresses no AAAA record is synthesized.
        live "dns64-exclude-v4" exclude_v4: Option<Vec<At<Prefix>>> = None, example ["192.0.2.0/24"];
        /// Also synthesize AAAA records for IPv4 addresses that are not global, such as 10.0.0.0/8, with the
        /// prefix 64:ff9b::/96, against RFC 6052 §3.1. With any other prefix they always are synthesized.
        live "dns64-non-global" non_global: bool = false, example true;
    }
}

/// A local record as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLine {
    text: String,
    record: LocalRecord,
}

impl Value for LocalLine {
    fn kind() -> String {
        "record `name [TTL] type data`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a record such as \"printer.lan. 300 A 192.0.2.5\"", |text| {
            let record = LocalRecord::parse(text)?;
            Ok::<_, recursion::LocalRecordFault>(Self { text: text.to_owned(), record })
        })
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.text))
    }
}

/// The usual networks of private addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usual {
    /// All of them.
    Usual,
}

impl Word for Usual {
    const WORDS: &'static [(&'static str, Self)] = &[("usual", Self::Usual)];
}

/// Returns the default of `dns64-exclude`.
fn usually_excluded() -> Vec<At<Prefix>> {
    let mapped = Prefix::of(std::net::Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().into(), 96);
    mapped.map(At::unwritten).into_iter().collect()
}

/// Returns the members of a list that may be unset.
fn members<T>(list: &Option<Vec<At<T>>>) -> &[At<T>] {
    list.as_deref().unwrap_or_default()
}

/// Returns the place of a network in a list.
fn place_of(list: &[At<Prefix>], network: Prefix) -> Option<&ConfigPlace> {
    list.iter().find(|member| member.value == network).and_then(|member| member.place.as_ref())
}

fn lower(name: &At<NameBuf>) -> LowerNameBuf {
    name.as_name().to_lower()
}

fn no_effect(key: &str, without: &str, place: Option<&ConfigPlace>) -> Diagnostic {
    Diagnostic::at(place, format!("`{key}` has no effect {without}"))
}

impl LocalNameKeys {
    /// Returns the settings of local names; `forwarded` are the domains with rules of their own.
    pub(super) fn config(&self, forwarded: Vec<LowerNameBuf>) -> LocalConfig {
        let special_off = match self.special_names.value {
            true => SpecialOff::These(members(&self.special_names_off).iter().map(lower).collect()),
            false => SpecialOff::All,
        };
        let data = members(&self.local_data).iter().map(|line| line.record.clone()).collect();
        LocalConfig { special_off, forwarded, data, ..LocalConfig::default() }
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let off = &self.special_names_off;
        let known: HashSet<LowerNameBuf> = SpecialName::all().filter_map(SpecialName::name).collect();
        for name in members(off).iter().filter(|name| !known.contains(&lower(name))) {
            let message = format!("{} is not a special-use name", name.value);
            let mut fault = Diagnostic::at(name.place.as_ref(), message);
            let text = name.value.to_string();
            if let Some(near) = did_you_mean(&text, SpecialName::all().map(|special| special.domain)) {
                fault = fault.hint(format!("did you mean \"{near}\"?"));
            }
            faults.push(fault);
        }
    }
}

impl PrivateAnswers {
    /// Returns the addresses that answers of other servers may not contain.
    pub(super) fn config(&self) -> PrivateConfig {
        let blocks = members(&self.addresses).iter().flat_map(|block| match block.value {
            NetworkOr::Word(Usual::Usual) => PrivateConfig::usual_blocks(),
            NetworkOr::Network(network) => vec![network],
        });
        PrivateConfig { blocks: blocks.collect(), exempt: members(&self.domains).iter().map(lower).collect() }
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        if self.domains.is_some() && self.addresses.is_none() {
            let place = self.domains.place.as_ref();
            faults.push(no_effect("private-domains", "without `private-addresses`", place));
        }
    }
}

impl Synthesis {
    /// Returns the settings of DNS64, if it is on.
    pub(super) fn config(&self) -> Option<Dns64Config> {
        let values = |list| members(list).iter().map(|network| network.value).collect();
        Some(Dns64Config {
            prefix: self.prefix.value?,
            clients: values(&self.clients),
            exclude: self.exclude.iter().map(|network| network.value).collect(),
            exclude_v4: values(&self.exclude_v4),
            non_global: *self.non_global,
        })
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let Some(config) = self.config() else {
            let set = [
                ("dns64-clients", self.clients.is_some(), &self.clients.place),
                // Default values may be written explicitly.
                ("dns64-exclude", self.exclude.value != usually_excluded(), &self.exclude.place),
                ("dns64-exclude-v4", self.exclude_v4.is_some(), &self.exclude_v4.place),
                ("dns64-non-global", *self.non_global, &self.non_global.place),
            ];
            for (key, _, place) in set.into_iter().filter(|(_, set, _)| *set) {
                faults.push(no_effect(key, "without `dns64-prefix`", place.as_ref()));
            }
            return;
        };
        let Err(fault) = Dns64::new(&config) else { return };
        let place = match fault {
            Dns64Fault::PrefixFamily(_) | Dns64Fault::PrefixLength(_) | Dns64Fault::ReservedBits(_) => {
                self.prefix.place.as_ref()
            }
            Dns64Fault::ExcludeFamily(bad) => place_of(&self.exclude, bad),
            Dns64Fault::ExcludeV4Family(bad) => place_of(members(&self.exclude_v4), bad),
        };
        faults.push(Diagnostic::at(place, fault.to_string()));
    }
}
