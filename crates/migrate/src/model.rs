//! A nomen configuration under construction: sections of keys, with nomen's limits.
//!
//! A test of `tools` compares the limits with those of the keys.

use crate::text::SourceSpan;
use crate::units;

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Setting {
    Text(String),
    Texts(Vec<String>),
    /// Names with texts, on one line.
    Table(Vec<(String, String)>),
    Number(u64),
    Numbers(Vec<u64>),
    Switch(bool),
}

/// Keys of one section, in output order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Keys(pub(crate) Vec<(&'static str, Setting)>);

impl Keys {
    pub(crate) fn get(&self, key: &str) -> Option<&Setting> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, setting)| setting)
    }

    pub(crate) fn set(&mut self, key: &'static str, setting: Setting) {
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = setting,
            None => self.0.push((key, setting)),
        }
    }

    pub(crate) fn text(&mut self, key: &'static str, text: impl Into<String>) {
        self.set(key, Setting::Text(text.into()));
    }

    pub(crate) fn switch(&mut self, key: &'static str, on: bool) {
        self.set(key, Setting::Switch(on));
    }

    /// Sets a list; an empty one removes the key.
    pub(crate) fn texts(&mut self, key: &'static str, texts: Vec<String>) {
        match texts.is_empty() {
            true => self.remove(key),
            false => self.set(key, Setting::Texts(texts)),
        }
    }

    /// Adds a text to a list, unless present.
    pub(crate) fn add(&mut self, key: &'static str, text: impl Into<String>) {
        let text = text.into();
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, Setting::Texts(texts))) if texts.contains(&text) => {}
            Some((_, Setting::Texts(texts))) => texts.push(text),
            _ => self.set(key, Setting::Texts(vec![text])),
        }
    }

    /// The members of a list.
    pub(crate) fn members(&self, key: &str) -> &[String] {
        match self.get(key) {
            Some(Setting::Texts(texts)) => texts,
            _ => &[],
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| *name != key);
    }
}

/// Sections that occur once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Server,
    RateLimits,
    Transfers,
    Resolver,
    Policy,
    Metrics,
    Log,
    Dnstap,
}

impl Section {
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Server => "[server]",
            Self::RateLimits => "[rate-limits]",
            Self::Transfers => "[transfers]",
            Self::Resolver => "[resolver]",
            Self::Policy => "[policy]",
            Self::Metrics => "[metrics]",
            Self::Log => "[log]",
            Self::Dnstap => "[dnstap]",
        }
    }
}

/// A zone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Zone {
    pub(crate) name: String,
    /// Its zone file, if any, as an absolute path if the source's is absolute.
    pub(crate) file: Option<String>,
    /// The source's template for it.
    pub(crate) template: Option<String>,
    pub(crate) keys: Keys,
    pub(crate) span: Option<SourceSpan>,
}

impl Zone {
    /// The view that it is in.
    pub(crate) fn view(&self) -> Option<&str> {
        match self.keys.get("view") {
            Some(Setting::Text(view)) => Some(view),
            _ => None,
        }
    }

    /// Whether it is a catalog zone whose records nomen produces.
    pub(crate) fn is_produced(&self) -> bool {
        self.keys.get("catalog-produce") == Some(&Setting::Switch(true))
    }
}

/// A configuration under construction.
#[derive(Debug, Default)]
pub(crate) struct Nomen {
    pub(crate) server: Keys,
    /// Clients whose messages are accepted or not, first match first.
    pub(crate) server_access: Vec<Keys>,
    /// Views, first match first.
    pub(crate) views: Vec<Keys>,
    /// Addresses, each with its protocols.
    pub(crate) listens: Vec<Keys>,
    /// Certificates, the usual one first.
    pub(crate) certificates: Vec<Keys>,
    pub(crate) rates: Keys,
    pub(crate) transfers: Keys,
    pub(crate) tsig_keys: Vec<Keys>,
    /// Templates by name, beside those generated for common keys.
    pub(crate) templates: Vec<(String, Keys)>,
    /// Policies of signing by name.
    pub(crate) dnssec_policies: Vec<(String, Keys)>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) resolver: Option<Keys>,
    pub(crate) forwards: Vec<Keys>,
    pub(crate) stubs: Vec<Keys>,
    pub(crate) access: Vec<Keys>,
    pub(crate) policy: Keys,
    /// Response policy zones, first match first.
    pub(crate) policy_zones: Vec<Keys>,
    pub(crate) policy_lists: Vec<Keys>,
    /// Groups of clients, first match first.
    pub(crate) policy_groups: Vec<Keys>,
    pub(crate) metrics: Option<Keys>,
    pub(crate) log: Keys,
    pub(crate) dnstap: Option<Keys>,
    /// `freebind` of every `[[listen]]`, if the source sets it.
    pub(crate) freebind: Option<bool>,
}

impl Nomen {
    pub(crate) fn section(&mut self, section: Section) -> &mut Keys {
        match section {
            Section::Server => &mut self.server,
            Section::RateLimits => &mut self.rates,
            Section::Transfers => &mut self.transfers,
            Section::Resolver => self.resolver.get_or_insert_default(),
            Section::Policy => &mut self.policy,
            Section::Metrics => self.metrics.get_or_insert_default(),
            Section::Log => &mut self.log,
            Section::Dnstap => self.dnstap.get_or_insert_default(),
        }
    }

    /// Whether there is a TSIG key of this name.
    pub(crate) fn has_key(&self, name: &str) -> bool {
        let is = |key: &Keys| matches!(key.get("name"), Some(Setting::Text(text)) if text == name);
        self.tsig_keys.iter().any(is)
    }

    /// The names of all TSIG keys.
    pub(crate) fn key_names(&self) -> impl Iterator<Item = &str> {
        self.tsig_keys.iter().filter_map(|key| match key.get("name") {
            Some(Setting::Text(name)) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Adds clients to `[[resolver.access]]`, to the last block if it has the same action.
    pub(crate) fn grant(&mut self, action: &str, from: impl Into<String>) {
        self.grant_over(action, from, None);
    }

    /// [`grant`](Self::grant) for queries over one transport.
    pub(crate) fn grant_over(&mut self, action: &str, from: impl Into<String>, proto: Option<&str>) {
        self.resolver.get_or_insert_default();
        add_clients(&mut self.access, action, from.into(), proto.map(|proto| ("proto", proto)));
    }

    /// Adds clients to `[[server.access]]`, to the last block if it has the same action.
    pub(crate) fn accept(&mut self, action: &str, from: impl Into<String>) {
        add_clients(&mut self.server_access, action, from.into(), None);
    }
}

/// Adds clients to the last block if it has the same action and condition, otherwise to a new one.
pub(crate) fn add_clients(
    blocks: &mut Vec<Keys>,
    action: &str,
    from: String,
    condition: Option<(&'static str, &str)>,
) {
    let wanted = Setting::Text(action.to_owned());
    let condition = condition.map(|(key, word)| (key, Setting::Texts(vec![word.to_owned()])));
    let same = |last: &&mut Keys| {
        let others: Vec<&(&str, Setting)> =
            last.0.iter().filter(|(key, _)| !["action", "from"].contains(key)).collect();
        last.get("action") == Some(&wanted) && others == condition.iter().collect::<Vec<_>>()
    };
    match blocks.last_mut().filter(same) {
        Some(last) => last.add("from", from),
        None => {
            let mut block = Keys::default();
            block.set("action", wanted);
            block.add("from", from);
            block.0.extend(condition);
            blocks.push(block);
        }
    }
}

/// The unit of a number in nomen's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// A count.
    Count,
    /// Milliseconds, written with units.
    Millis,
    /// Bytes, written with units.
    Bytes,
}

/// Limits of a number: section header, key, unit, minimum and maximum.
pub type NumberLimits = (&'static str, &'static str, Measure, u64, u64);

const DAY: u64 = 86_400_000;
const SOA: (u64, u64) = (1_000, 2_147_483_647_000);

/// Limits of the keys that are written. A test of the program compares them with its own.
#[rustfmt::skip]
pub const BOUNDS: &[NumberLimits] = &[
    ("[server]", "workers", Measure::Count, 1, 1024),
    ("[server]", "udp-buffer", Measure::Bytes, 4096, 1 << 30),
    ("[server]", "tcp-connections", Measure::Count, 1, 1_000_000),
    ("[server]", "tcp-connections-per-client", Measure::Count, 1, 1_000_000),
    ("[server]", "tcp-first-timeout", Measure::Millis, 100, 600_000),
    ("[server]", "tcp-idle-timeout", Measure::Millis, 200, 3_600_000),
    ("[server]", "tcp-write-timeout", Measure::Millis, 100, 600_000),
    ("[server]", "tcp-pipeline", Measure::Count, 1, 1024),
    ("[server]", "proxy-protocol-maximum-size", Measure::Count, 52, 2048),
    ("[server]", "max-udp-size", Measure::Count, 512, 4096),
    ("[server]", "max-chain", Measure::Count, 1, 64),
    ("[rate-limits]", "answers-per-second", Measure::Count, 1, 1_000_000),
    ("[rate-limits]", "referrals-per-second", Measure::Count, 1, 1_000_000),
    ("[rate-limits]", "nxdomains-per-second", Measure::Count, 1, 1_000_000),
    ("[rate-limits]", "errors-per-second", Measure::Count, 1, 1_000_000),
    ("[rate-limits]", "burst", Measure::Millis, 1_000, 60_000),
    ("[rate-limits]", "slip", Measure::Count, 0, 1000),
    ("[rate-limits]", "short-replies-per-second", Measure::Count, 0, 1_000_000),
    ("[transfers]", "outgoing", Measure::Count, 1, 100_000),
    ("[transfers]", "incoming", Measure::Count, 1, 10_000),
    ("[transfers]", "incoming-per-primary", Measure::Count, 1, 10_000),
    ("[transfers]", "incoming-max-records", Measure::Count, 1, 4_294_967_295),
    ("[transfers]", "incoming-max-size", Measure::Bytes, 65_536, 1 << 40),
    ("[transfers]", "incoming-max-time", Measure::Millis, 1_000, 7 * DAY),
    ("[transfers]", "incoming-min-rate", Measure::Count, 0, 1_000_000_000),
    ("[transfers]", "incoming-idle-timeout", Measure::Millis, 1_000, 3_600_000),
    ("[[zone]]", "min-refresh", Measure::Millis, SOA.0, SOA.1),
    ("[[zone]]", "max-refresh", Measure::Millis, SOA.0, SOA.1),
    ("[[zone]]", "min-retry", Measure::Millis, SOA.0, SOA.1),
    ("[[zone]]", "max-retry", Measure::Millis, SOA.0, SOA.1),
    ("[[zone]]", "min-expire", Measure::Millis, SOA.0, SOA.1),
    ("[[zone]]", "max-expire", Measure::Millis, SOA.0, SOA.1),
    ("[[zone]]", "journal-size", Measure::Bytes, 0, 1 << 40),
    ("[[zone]]", "write-file-every", Measure::Millis, 1_000, 30 * DAY),
    ("[resolver]", "cache-size", Measure::Bytes, 1 << 20, 64 << 30),
    ("[resolver]", "min-ttl", Measure::Millis, 0, 3_600_000),
    ("[resolver]", "max-ttl", Measure::Millis, 0, 30 * DAY),
    ("[resolver]", "max-negative-ttl", Measure::Millis, 0, 30 * DAY),
    ("[resolver]", "failure-ttl", Measure::Millis, 1_000, 300_000),
    ("[resolver]", "serve-stale", Measure::Millis, 0, 30 * DAY),
    ("[resolver]", "stale-answer-ttl", Measure::Millis, 1_000, 3_600_000),
    ("[resolver]", "stale-after", Measure::Millis, 0, 60_000),
    ("[resolver]", "stale-refresh-time", Measure::Millis, 0, 3_600_000),
    ("[resolver]", "max-rule-chain", Measure::Count, 1, 64),
    ("[resolver]", "udp-size", Measure::Count, 512, 4096),
    ("[resolver]", "budget-queries", Measure::Count, 1, 10_000),
    ("[resolver]", "budget-depth", Measure::Count, 0, 64),
    ("[resolver]", "budget-time", Measure::Millis, 100, 60_000),
    ("[resolver]", "clients-per-lookup", Measure::Count, 1, 1_000_000),
    ("[resolver]", "lookups", Measure::Count, 1, 1_000_000),
    ("[resolver]", "lookups-per-zone", Measure::Count, 1, 1_000_000),
    ("[resolver]", "known-servers", Measure::Count, 100, 1_000_000),
    ("[resolver]", "aggressive-nsec-size", Measure::Bytes, 65_536, 1 << 30),
    ("[resolver]", "servers-per-zone", Measure::Count, 1, 64),
    ("[resolver]", "budget-fruitless", Measure::Count, 0, 1000),
    ("[resolver]", "signature-skew", Measure::Millis, 0, DAY),
    ("[resolver]", "bogus-ttl", Measure::Millis, 1_000, 300_000),
    ("[resolver]", "max-nsec3-iterations", Measure::Count, 0, 500),
    ("[resolver]", "validate-signatures", Measure::Count, 1, 1000),
    ("[resolver]", "first-timeout", Measure::Millis, 10, 10_000),
    ("[resolver]", "min-timeout", Measure::Millis, 1, 10_000),
    ("[resolver]", "max-timeout", Measure::Millis, 100, 60_000),
    ("[resolver]", "connection-idle-timeout", Measure::Millis, 100, 600_000),
    ("[resolver]", "records-per-set", Measure::Count, 1, 10_000),
    ("[policy]", "block-ttl", Measure::Millis, 0, 7 * DAY),
    ("[dnssec-policy.X]", "ksk-lifetime", Measure::Millis, 60_000, 2_147_483_647_000),
    ("[dnssec-policy.X]", "zsk-lifetime", Measure::Millis, 60_000, 2_147_483_647_000),
    ("[dnssec-policy.X]", "nsec3-iterations", Measure::Count, 0, 50),
    ("[dnssec-policy.X]", "signature-validity", Measure::Millis, 60_000, 365 * DAY),
    ("[dnssec-policy.X]", "signature-refresh", Measure::Millis, 1_000, 365 * DAY),
    ("[dnssec-policy.X]", "signature-jitter", Measure::Millis, 0, 365 * DAY),
    ("[dnssec-policy.X]", "dnskey-ttl", Measure::Millis, 1_000, 7 * DAY),
    ("[dnssec-policy.X]", "publish-safety", Measure::Millis, 0, 28 * DAY),
    ("[dnssec-policy.X]", "retire-safety", Measure::Millis, 0, 28 * DAY),
    ("[dnssec-policy.X]", "zone-propagation-delay", Measure::Millis, 0, 28 * DAY),
    ("[dnssec-policy.X]", "parent-propagation-delay", Measure::Millis, 0, 28 * DAY),
    ("[dnssec-policy.X]", "parent-ds-ttl", Measure::Millis, 1_000, 28 * DAY),
    ("[dnssec-policy.X]", "purge-keys", Measure::Millis, 0, 2_147_483_647_000),
    ("[dnstap]", "sample", Measure::Count, 1, 1_000_000),
];

/// A number within a key's limits, and whether it had to be changed. `value` is in the key's unit.
pub(crate) fn bounded(header: &str, key: &str, value: u64) -> Option<(Setting, bool)> {
    let (_, _, measure, least, most) =
        BOUNDS.iter().find(|(section, name, ..)| *section == header && *name == key)?;
    let within = value.clamp(*least, *most);
    let setting = match measure {
        Measure::Count => Setting::Number(within),
        Measure::Millis => Setting::Text(units::duration(within)),
        Measure::Bytes => Setting::Text(units::bytes(within)),
    };
    Some((setting, within != value))
}
