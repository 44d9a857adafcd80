//! `[[policy.zone]]`, `[[policy.list]]`, `[[policy.group]]`: response policy zones, block lists and groups of
//! clients, of several programs.

use std::path::Path;

use crate::ledger::Coverage;
use crate::model::{Keys, Setting};
use crate::network::Network;
use crate::tree::Statement;
use crate::units;
use crate::work::{Work, path_text};

/// Largest `max-ttl` of a policy zone, in seconds.
const MAX_TTL: u64 = 604_800;

/// Most `[[policy.group]]`.
pub(crate) const MAX_GROUPS: usize = 64;

/// A name with its final dot.
pub(crate) fn absolute(name: &str) -> String {
    if name == "." { name.to_owned() } else { format!("{name}.") }
}

/// Sets `max-ttl`, in seconds.
pub(crate) fn max_ttl(work: &mut Work, statement: &Statement, keys: &mut Keys, seconds: u64) {
    let within = seconds.min(MAX_TTL);
    keys.text("max-ttl", units::duration(within * 1000));
    if within != seconds {
        let words = "`max-ttl` of [[policy.zone]] takes no such value; it is 7d here";
        work.ledger.part(&statement.span, &statement.title(), Coverage::Differs, words);
    }
}

/// Adds a policy zone; clients that may query it get answers, unless [`Work::serve_without_answers`] names
/// it. Refuses recursion and returns `false` if there is no such zone here: its rules would not apply.
pub(crate) fn zone(work: &mut Work, statement: &Statement, name: &str, mut keys: Keys) -> bool {
    if work.nomen.policy_zones.iter().any(|other| other.get("name") == keys.get("name")) {
        work.ledger.differs(statement, "there is another policy zone of this name; the first one counts");
        return false;
    }
    let Some(zone) = work.nomen.zones.iter().find(|zone| zone.name == name && zone.view().is_none()) else {
        let logs_only = keys.get("action") == Some(&Setting::Text("disabled".into()));
        match logs_only {
            true => work.ledger.missing(statement, "there is no such zone here; it is disabled anyway"),
            false => work.refuse_recursion(statement, "its zone is not in the printed configuration"),
        }
        return false;
    };
    // Secondaries get transfers of a zone that answers alone.
    let is_for_none =
        zone.keys.members("allow-query") == ["!any"] && zone.keys.get("allow-transfer").is_none();
    if !work.narrow.unanswered.iter().any(|other| other == name) {
        if !is_for_none {
            keys.switch("answers", true);
        }
    } else if zone.keys.get("allow-transfer").is_some() {
        let why = "nomen sends no transfers of a policy zone from which clients get no answers";
        work.ledger.part(&statement.span, &statement.title(), Coverage::Narrower, why);
    }
    work.nomen.policy_zones.push(keys);
    true
}

/// What a list does with its names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// It blocks them with this answer.
    Block(Setting),
    /// It exempts them from all lists.
    Allow,
}

impl Effect {
    /// Blocks with the answer of this name.
    pub(crate) fn answer(word: &str) -> Self {
        Self::Block(Setting::Text(word.to_owned()))
    }

    fn write(&self, keys: &mut Keys) {
        match self {
            Self::Allow => keys.text("kind", "allow"),
            // It is nomen's default.
            Self::Block(Setting::Text(word)) if word == "nxdomain" => {}
            Self::Block(answer) => keys.set("answer", answer.clone()),
        }
    }
}

impl Work {
    /// Adds a line of adblock syntax to a list that is made.
    pub(crate) fn list_line(&mut self, name: &str, effect: &Effect, line: impl Into<String>) {
        if let Some(path) = self.made_lists.add(name, line.into()) {
            self.list_of_file(name, &path, Some("adblock"), effect);
        }
    }

    /// Adds a list that is in a file.
    pub(crate) fn list_of_file(&mut self, name: &str, path: &Path, format: Option<&str>, effect: &Effect) {
        let mut keys = self.list(name);
        keys.text("file", path_text(path));
        format.into_iter().for_each(|format| keys.text("format", format));
        effect.write(&mut keys);
        self.nomen.policy_lists.push(keys);
    }

    /// Adds a list that is fetched from a URL, again after `refresh` milliseconds.
    pub(crate) fn list_of_url(&mut self, name: &str, url: &str, refresh: Option<u64>, effect: &Effect) {
        self.keep_state();
        let mut keys = self.list(name);
        keys.text("url", url);
        refresh.into_iter().for_each(|time| keys.text("refresh", units::duration(time)));
        effect.write(&mut keys);
        self.nomen.policy_lists.push(keys);
    }

    /// A list with a name that no other has.
    fn list(&self, wanted: &str) -> Keys {
        let wanted = if wanted.is_empty() { "list" } else { wanted };
        named(wanted, &self.nomen.policy_lists)
    }

    /// Adds a group of clients for which other rules count.
    pub(crate) fn group(&mut self, wanted: &str, networks: &[Network], selection: Keys) {
        self.group_of(wanted, networks.iter().map(ToString::to_string).collect(), selection);
    }

    /// Adds a group of the clients that these members of `from` name.
    pub(crate) fn group_of(&mut self, wanted: &str, from: Vec<String>, selection: Keys) {
        // It is the group of clients in no other one.
        let wanted = if ["", "default"].contains(&wanted) { "group" } else { wanted };
        let mut keys = named(wanted, &self.nomen.policy_groups);
        keys.texts("from", from);
        keys.0.extend(selection.0);
        self.nomen.policy_groups.push(keys);
    }
}

/// The member of `from` for a host with this MAC address.
pub(crate) fn mac(text: &str) -> Option<String> {
    let pair = |part: &&str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).filter(pair).collect();
    let is_address = parts.len() == 6 && text.len() == 17;
    is_address.then(|| format!("mac:{}", parts.join(":").to_ascii_lowercase()))
}

/// What differs for groups by MAC address.
pub(crate) const BY_MAC: &str = "a host is in a [[policy.group]] by its MAC address (`mac:`) on links of this machine \
     alone, or behind a forwarder in `client-ids-from` of [policy] that sends it";

/// A block with a name that no other has.
fn named(wanted: &str, others: &[Keys]) -> Keys {
    let is_free = |name: &String| {
        let named = Setting::Text(name.clone());
        !others.iter().any(|other| other.get("name") == Some(&named))
    };
    let mut names = std::iter::once(wanted.to_owned()).chain((2..).map(|n: usize| format!("{wanted}-{n}")));
    let mut keys = Keys::default();
    keys.text("name", names.find(is_free).unwrap_or_default());
    keys
}

/// The rule that blocks a name and all names below; `None` for a name that a list cannot have.
pub(crate) fn at_and_below(name: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (name != "." && name.bytes().all(plain)).then(|| format!("||{name}^"))
}
