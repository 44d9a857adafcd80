//! Policies of signing, from those of BIND and Knot DNS.

use crate::ledger::Coverage;
use crate::model::{BOUNDS, Keys, Setting, bounded};
use crate::tree::Statement;
use crate::units;
use crate::work::Work;

/// The section of a policy.
const HEADER: &str = "[dnssec-policy.X]";

/// The algorithms that nomen signs with, by their numbers.
const ALGORITHMS: [(&str, &str); 5] = [
    ("8", "rsasha256"),
    ("10", "rsasha512"),
    ("13", "ecdsap256sha256"),
    ("14", "ecdsap384sha384"),
    ("15", "ed25519"),
];
/// The default algorithm of nomen, BIND and Knot DNS.
const DEFAULT_ALGORITHM: &str = "ecdsap256sha256";
/// The sizes of RSA keys.
const RSA_SIZES: [u64; 3] = [2048, 3072, 4096];
/// Seconds of a day.
const DAY: u64 = 86_400;
/// The defaults of nomen's times, in seconds. A test of the program compares them with its own.
pub const POLICY_TIMES: &[(&str, u64)] = &[
    ("signature-validity", 14 * DAY),
    ("signature-refresh", 5 * DAY),
    ("signature-jitter", DAY / 2),
    ("dnskey-ttl", 3_600),
    ("publish-safety", 3_600),
    ("retire-safety", 3_600),
    ("zone-propagation-delay", 300),
    ("parent-propagation-delay", 3_600),
    ("parent-ds-ttl", DAY),
];

/// Returns nomen's limits of a time, in seconds.
fn limits(key: &str) -> (u64, u64) {
    let found = BOUNDS.iter().find(|(header, name, ..)| *header == HEADER && *name == key);
    found.map_or((0, u64::MAX), |(.., least, most)| (least / 1000, most / 1000))
}

/// Returns the word of an algorithm that nomen signs with.
pub(crate) fn algorithm(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    ALGORITHMS.iter().find(|(number, word)| text == *number || text == *word).map(|(_, word)| *word)
}

/// A policy under construction.
pub(crate) struct PolicyDraft<'t> {
    name: String,
    keys: Keys,
    algorithm: &'static str,
    /// Whether a KSK and a ZSK are separate.
    split: bool,
    /// Times in seconds, with the statements that set them, if any.
    times: Vec<(&'static str, u64, Option<&'t Statement>)>,
}

impl<'t> PolicyDraft<'t> {
    /// Returns a policy with nomen's defaults. The source has no keys of its own, or one of them.
    pub(crate) fn new(name: &str) -> Self {
        PolicyDraft {
            name: name.to_owned(),
            keys: Keys::default(),
            algorithm: DEFAULT_ALGORITHM,
            split: false,
            times: Vec::new(),
        }
    }

    /// Sets the algorithm, and whether a KSK and a ZSK are separate.
    pub(crate) fn layout(&mut self, algorithm: &'static str, split: bool) {
        (self.algorithm, self.split) = (algorithm, split);
        if algorithm != DEFAULT_ALGORITHM {
            self.keys.text("algorithm", algorithm);
        }
        if split {
            self.keys.switch("single-key", false);
        }
    }

    /// Whether a KSK and a ZSK are separate.
    pub(crate) fn is_split(&self) -> bool {
        self.split
    }

    /// Sets the size of an RSA key; keys of other algorithms have one.
    pub(crate) fn size(&mut self, work: &mut Work, found: &Statement, key: &'static str, bits: u64) {
        if !self.algorithm.starts_with("rsa") {
            return work.ledger.unneeded(found, "keys of the algorithm have one size");
        }
        let within = RSA_SIZES.iter().copied().find(|size| *size >= bits).unwrap_or(4096);
        if within != 2048 {
            self.keys.set(key, Setting::Number(within));
        }
        match within == bits {
            true => work.ledger.translated(found, self.place(key)),
            false => {
                work.ledger.differs(found, format!("RSA keys have 2048, 3072 or 4096 bits here: {within}"))
            }
        }
    }

    /// Sets a time in seconds, from a statement or from a default of the source.
    pub(crate) fn time(&mut self, key: &'static str, seconds: u64, found: Option<&'t Statement>) {
        self.times.retain(|(name, ..)| *name != key);
        self.times.push((key, seconds, found));
    }

    /// Sets a time as the source writes it.
    pub(crate) fn time_of(&mut self, work: &mut Work, key: &'static str, found: &'t Statement, text: &str) {
        match units::seconds(text) {
            Some(seconds) => self.time(key, seconds, Some(found)),
            None => work.not_understood(found),
        }
    }

    /// Sets a switch.
    pub(crate) fn switch(&mut self, work: &mut Work, key: &'static str, found: &Statement, on: bool) {
        self.keys.switch(key, on);
        work.ledger.translated(found, self.place(key));
    }

    /// Sets a switch of which the source has no statement.
    pub(crate) fn silent_switch(&mut self, key: &'static str, on: bool) {
        self.keys.switch(key, on);
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.keys.get(key) == Some(&Setting::Switch(true))
    }

    /// Sets the number of NSEC3 iterations.
    pub(crate) fn iterations(&mut self, work: &mut Work, found: &Statement, number: Option<u64>) {
        let key = "nsec3-iterations";
        let Some((setting, changed)) = number.and_then(|number| bounded(HEADER, key, number)) else {
            return work.not_understood(found);
        };
        self.keys.set(key, setting);
        match changed {
            true => work.ledger.part(
                &found.span,
                &found.title(),
                Coverage::Differs,
                "NSEC3 has 50 iterations at most here",
            ),
            false => work.ledger.part(&found.span, &found.title(), Coverage::Translated, self.place(key)),
        }
    }

    /// Names a key of the policy in reports.
    pub(crate) fn place(&self, key: &str) -> String {
        format!("`{key}` of [dnssec-policy.{}]", self.name)
    }

    /// A time in seconds: the source's, or nomen's default.
    pub(crate) fn seconds(&self, key: &str) -> u64 {
        let set = self.times.iter().find(|(name, ..)| *name == key).map(|(_, seconds, _)| *seconds);
        let usual = || POLICY_TIMES.iter().find(|(name, _)| *name == key).map(|(_, seconds)| *seconds);
        let (least, most) = limits(key);
        set.or_else(usual).unwrap_or(0).clamp(least, most)
    }

    /// Makes times shorter that contradict others.
    fn mend(&mut self, work: &mut Work) {
        let validity = self.seconds("signature-validity");
        if self.seconds("signature-refresh") >= validity {
            self.shorten(work, "signature-refresh", validity / 2, "it is shorter than the validity");
        }
        let rest = validity - self.seconds("signature-refresh").min(validity);
        if self.seconds("signature-jitter") >= rest {
            let why = "it is shorter than the validity less the refresh";
            self.shorten(work, "signature-jitter", rest / 4, why);
        }
    }

    fn shorten(&mut self, work: &mut Work, key: &'static str, seconds: u64, why: &str) {
        if let Some((.., Some(found))) = self.times.iter().find(|(name, ..)| *name == key) {
            work.ledger.differs(found, format!("{}: {why}", self.place(key)));
        }
        self.time(key, seconds, None);
    }

    /// Seconds that a rollover takes at least, as nomen counts them.
    fn rollover(&self, key: &str) -> u64 {
        let sum = |keys: &[&str]| keys.iter().map(|key| self.seconds(key)).fold(0, u64::saturating_add);
        let publish = sum(&["dnskey-ttl", "publish-safety", "zone-propagation-delay"]);
        let parent =
            publish.saturating_add(sum(&["parent-propagation-delay", "parent-ds-ttl", "retire-safety"]));
        let renewal = self.seconds("signature-validity").saturating_sub(self.seconds("signature-refresh"));
        let zone =
            publish.saturating_add(renewal).saturating_add(sum(&["zone-propagation-delay", "retire-safety"]));
        match (key, self.split) {
            ("ksk-lifetime", true) => parent,
            ("ksk-lifetime", false) => parent.max(zone),
            _ => zone,
        }
    }

    /// Adds the policy to the configuration, and reports its times.
    pub(crate) fn finish(mut self, work: &mut Work) {
        self.mend(work);
        for (key, seconds, found) in self.times.clone() {
            let is_lifetime = key.ends_with("-lifetime");
            let words = match bounded(HEADER, key, seconds.saturating_mul(1000)) {
                None => continue,
                Some(_) if is_lifetime && seconds <= self.rollover(key) => Err(format!(
                    "a rollover takes longer than that under this policy: {} is not set, and keys are rolled \
                     when you order it",
                    self.place(key)
                )),
                Some((setting, changed)) => {
                    self.keys.set(key, setting);
                    if changed { Err(format!("{}: the limit of it", self.place(key))) } else { Ok(()) }
                }
            };
            match (words, found) {
                (Ok(()), Some(found)) if !work.ledger.is_seen(found) => {
                    work.ledger.translated(found, self.place(key));
                }
                (Err(how), Some(found)) => work.ledger.differs(found, how),
                _ => {}
            }
        }
        work.nomen.dnssec_policies.push((self.name, self.keys));
    }
}

/// Sets the policy of a zone.
pub(crate) fn of_zone(work: &mut Work, keys: &mut Keys, name: &str) {
    keys.text("dnssec-policy", name);
    work.keep_state();
}

/// Returns the addresses of servers of the parent, without keys and what authenticates them over TLS, and
/// whether any had those.
pub(crate) fn parents(servers: &[String]) -> (Vec<String>, bool) {
    let plain = |server: &String| {
        let address = server.split(" key:").next().unwrap_or_default();
        match address.split_once('#') {
            // Port 853 is that of TLS alone.
            Some((address, _)) => address.strip_suffix("@853").unwrap_or(address).to_owned(),
            None => address.to_owned(),
        }
    };
    let mut all: Vec<String> = Vec::new();
    for address in servers.iter().map(plain) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    (all, servers.iter().any(|server| server.contains([' ', '#'])))
}

/// Reports the statement that names servers of the parent.
pub(crate) fn report_parents(work: &mut Work, found: &Statement, is_less: bool) {
    match is_less {
        false => work.ledger.translated(found, "`parental-servers` of the zone"),
        true => work.ledger.differs(
            found,
            "`parental-servers` of the zone: they are asked in the clear and without a key; DS records are \
             public",
        ),
    }
}
