//! [`SectionKind`]: which tables of the configuration can be shared, and their blocks in a [`Configuration`].
//! A change of any of them takes effect at a reload.

use wire::NameBuf;

use crate::Configuration;
use crate::table::read::At;

/// A kind of sections that nodes can share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SectionKind {
    /// `[[api.token]]`.
    Token,
    /// `[[tsig-key]]`.
    TsigKey,
    /// `[[policy.list]]`.
    List,
    /// `[[policy.zone]]`.
    PolicyZone,
    /// `[[policy.group]]`.
    Group,
    /// `[[policy.schedule]]`: all those of a group are one section.
    Schedule,
    /// `[template.X]`.
    Template,
    /// `[dnssec-policy.X]`.
    DnssecPolicy,
}

impl SectionKind {
    /// All kinds, in an order in which each refers to earlier ones.
    pub const ALL: [SectionKind; 8] = [
        Self::Token,
        Self::TsigKey,
        Self::DnssecPolicy,
        Self::Template,
        Self::List,
        Self::PolicyZone,
        Self::Group,
        Self::Schedule,
    ];

    /// Returns the name of its table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Token => "api.token",
            Self::TsigKey => "tsig-key",
            Self::List => "policy.list",
            Self::PolicyZone => "policy.zone",
            Self::Group => "policy.group",
            Self::Schedule => "policy.schedule",
            Self::Template => "template",
            Self::DnssecPolicy => "dnssec-policy",
        }
    }

    /// Returns the kind with this word.
    pub fn of(word: &str) -> Option<SectionKind> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the header of its table.
    pub fn header(self) -> String {
        match self {
            Self::Template | Self::DnssecPolicy => format!("[{}.X]", self.word()),
            kind => format!("[[{}]]", kind.word()),
        }
    }

    /// Returns the top-level key of its table, and the key inside that, if there is one.
    pub(super) fn keys(self) -> (&'static str, Option<&'static str>) {
        match self.word().split_once('.') {
            Some((top, inner)) => (top, Some(inner)),
            None => (self.word(), None),
        }
    }

    /// Returns the key of its blocks that has the name; `None` if the header has it.
    pub(super) fn name_key(self) -> Option<&'static str> {
        match self {
            Self::Template | Self::DnssecPolicy => None,
            Self::Schedule => Some("group"),
            _ => Some("name"),
        }
    }

    /// Whether several blocks are one section.
    pub(super) fn has_several_blocks(self) -> bool {
        self == Self::Schedule
    }

    /// Whether it is about recursive service, without which it has no effect.
    pub(super) fn needs_resolver(self) -> bool {
        matches!(self, Self::List | Self::PolicyZone | Self::Group | Self::Schedule)
    }

    /// Whether a version that cannot be used leaves none in force, not even the one before: that may grant
    /// what is to be withdrawn.
    pub(super) fn fails_closed(self) -> bool {
        self == Self::Token
    }

    /// Returns a name as sections have it: domain names are in lower case, with a final dot.
    pub fn canonical(self, name: &str) -> String {
        match self {
            Self::TsigKey | Self::PolicyZone => match name.parse::<NameBuf>() {
                Ok(name) => domain(&name),
                Err(_) => name.to_owned(),
            },
            _ => name.to_owned(),
        }
    }
}

fn domain(name: &NameBuf) -> String {
    name.as_name().to_lower().as_lower().as_name().to_string()
}

/// Returns the names of all blocks of shared kinds that a configuration has.
pub(super) fn names(config: &Configuration) -> Vec<(SectionKind, String)> {
    let Configuration { settings, templates, dnssec_policies, .. } = config;
    let mut names = Vec::new();
    let mut add = |kind: SectionKind, name: String| names.push((kind, name));
    settings.api_tokens.iter().for_each(|block| add(SectionKind::Token, block.name.0.clone()));
    settings.tsig_keys.iter().for_each(|block| add(SectionKind::TsigKey, domain(&block.name)));
    settings.lists.iter().for_each(|block| add(SectionKind::List, block.name.value.clone()));
    settings.policy_zones.iter().for_each(|block| add(SectionKind::PolicyZone, domain(&block.name)));
    settings.groups.iter().for_each(|block| add(SectionKind::Group, block.name.value.clone()));
    settings.schedules.iter().for_each(|block| add(SectionKind::Schedule, block.group.value.clone()));
    templates.keys().for_each(|name| add(SectionKind::Template, name.clone()));
    dnssec_policies.keys().for_each(|name| add(SectionKind::DnssecPolicy, name.clone()));
    names
}

/// Moves all blocks of shared kinds to the end of those of `config`.
pub(super) fn append(config: &mut Configuration, more: Configuration) {
    let Configuration { settings, templates, dnssec_policies, .. } = more;
    config.settings.api_tokens.extend(settings.api_tokens);
    config.settings.tsig_keys.extend(settings.tsig_keys);
    config.settings.lists.extend(settings.lists);
    config.settings.policy_zones.extend(settings.policy_zones);
    config.settings.groups.extend(settings.groups);
    config.settings.schedules.extend(settings.schedules);
    config.templates.extend(templates);
    config.dnssec_policies.extend(dnssec_policies);
}

/// Removes the blocks of a text.
pub(super) fn remove(config: &mut Configuration, source: usize) {
    fn is_other<T>(block: &At<T>, source: usize) -> bool {
        block.place.as_ref().is_none_or(|place| place.source != source)
    }
    let Configuration { settings, templates, dnssec_policies, .. } = config;
    settings.api_tokens.retain(|block| is_other(block, source));
    settings.tsig_keys.retain(|block| is_other(block, source));
    settings.lists.retain(|block| is_other(block, source));
    settings.policy_zones.retain(|block| is_other(block, source));
    settings.groups.retain(|block| is_other(block, source));
    settings.schedules.retain(|block| is_other(block, source));
    templates.retain(|_, block| is_other(block, source));
    dnssec_policies.retain(|_, block| is_other(block, source));
}
