//! Rules about names and addresses: response policy zones (RPZ, draft-vixie-dnsop-dns-rpz-00) and block
//! lists, compiled for lookups. Nothing here does I/O, reads a clock or takes a lock.
//!
//! | module | holds |
//! |---|---|
//! | `conditions` | conditions of rules: types of queries, clients, names that a rule leaves out |
//! | `local_data` | records that a policy zone has in place of those of a name |
//! | `rule` | a rule: its source, the names that it covers, its effect; sets of rules |
//! | `names` | which rules a name has, by the hashes of its suffixes |
//! | `prefixes` | which rules an address has |
//! | `rpz` | response policy zones: triggers in owner names, actions in records |
//! | `regexes` | regular expressions in one automaton |
//! | `patterns` | patterns of names: wildcards, regular expressions |
//! | `pattern_table` | which rules a name has by patterns |
//! | `adblock` | rules in adblock syntax: exception mark, pattern, modifiers |
//! | `zone_text` | the text of a response policy zone as a list |
//! | `list` | block and allow lists as text: hosts files, domains, adblock syntax, response policy zones |
//! | `safe_search` | names of search engines, and their names without adult content |
//! | `rules` | the rules of all sources in one snapshot, and the rule that decides a query |
//! | `changes` | the next snapshot, if few rules differ |
//! | `list_changes` | which rules of a list differ from those of a new text |
//!
//! A module uses only those above it.
//!
//! # Sources and precedence
//!
//! A *source* is one response policy zone or one list. Sources are numbered in the operator's order, and the
//! policy zones come before the lists. For response policy zones the source with the lowest number decides;
//! within a zone the trigger type decides, then the longest name or prefix (draft, §5). All lists are of
//! equal rank: an important exception comes before an important block, that before an exception, and that
//! before a block, whichever lists they are in. A rule that another one disables (`$badfilter`) does not
//! count.
//!
//! # Changes
//!
//! A snapshot is a *base*, which is compiled as a whole, and maybe an *overlay*: the rules in place of
//! those of the base, for names and prefixes about which rules have changed since. The next snapshot shares
//! the base. Patterns, conditions and answers of lists change with the base only. Without an overlay a
//! query pays a branch for each table; with one, a second lookup for each label of its name in a small
//! table: 30 ns instead of 13 for a name of three labels (`examples/overlay.rs`).
//!
//! # Memory
//!
//! A name takes 17.5 bytes: the keyed hash that the query path has of every suffix of a query name, 32 bits
//! of a second hash, the number of a set of rules, a byte that spares most reads of the rest, and half a byte
//! of index. No name is stored. Two names would have to share 96 bits of two keyed hashes for one to have the
//! rules of the other; the keys are secret, so that no client and no list can choose such names.
//!
//! A prefix makes one or two ranges of addresses, of 12 bytes (IPv4) or 24 (IPv6) each, and takes 9 or 21
//! bytes more, by which those around it are found when it changes. In an overlay it takes up to 80 bytes
//! more.
//!
//! Patterns take 64 MiB at most ([`MAX_PATTERN_BYTES`]); those beyond are faults. A query pays for patterns
//! only if there are any: one pass over its name for all wildcard patterns, and one for all regular
//! expressions, or a few if their common automaton would take more than 1 MiB.
#![forbid(unsafe_code)]

mod adblock;
mod changes;
mod conditions;
mod list;
mod list_changes;
mod local_data;
mod names;
mod pattern_table;
mod patterns;
mod prefixes;
mod regexes;
mod rewrites;
mod rpz;
mod rule;
mod rules;
mod safe_search;
mod zone_text;

pub use adblock::ModifierFault;
pub use changes::{ChangedOwner, NeedsBuild, RuleChanges};
pub use conditions::{ConditionId, GroupFacts, PolicyQuery};
pub use list::{LineFault, ListFault, ListFormat, ListReport, check_list, line_of};
pub use local_data::{DataId, PolicyRecord, Rewriting};
pub use names::NameKeys;
pub use patterns::{MAX_PATTERN_BYTES, NamePatternFault};
pub use rewrites::{MAX_REWRITES, RewriteFault, Rewrites};
pub use rpz::{OwnerFault, RpzReport, SkippedRecord};
pub use rule::{MAX_FAULTS, RpzAction, Rule, RuleEffect, RuleReach, SourceId, SourceMask};
pub use rules::{AnswerSources, Decision, Match, RuleBuilder, Rules, TriggerKind};
pub use zone_text::ZoneTextFault;
