//! Finds the rule that covers a name: the one with the longest domain. Answers cached for the names of one
//! rule are never served for another's. The number that separates them, the cache view, survives restarts.
//!
//! A partition of clients may have rules of its own. Its answers for names that these cover have a view of
//! their own. All other names have the views of the rules for all, so partitions share their answers, with
//! one exception: the chain of aliases from such a name may lead to a name that a partition has a rule for.
//! Then the answer depends on the client, and each partition has it in a view that only the slow path reads:
//! the view [across](CacheViews::across) the border.

use std::collections::HashSet;
use std::sync::Arc;

use resolver::{Partition, QueryKey};
use wire::hash::{HashKey, HashedName};
use wire::message::Parser;
use wire::{LowerName, LowerNameBuf, Malformed, Name, NameBuf, Type};

/// A domain with upstream servers of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its name; the root for all names.
    pub name: NameBuf,
    /// The partition whose rule it is; [`Partition::SHARED`] if the rule is for all clients.
    pub partition: Partition,
    /// Whether AD of its servers' answers is passed on: they validate, and the path to them is secure
    /// (RFC 4035 §4.9.3).
    pub trust_ad: bool,
    /// Whether its servers' answers are validated here. Then their AD flag is ignored.
    pub validate: bool,
}

/// The properties of a rule that matter for cached answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheView {
    /// Separates its answers from those of other rules.
    pub(crate) number: u32,
    /// The partition whose rule it is.
    pub(crate) partition: Partition,
    /// Whether AD of cached answers is passed on: as [`Domain::trust_ad`], or set by our own validation.
    pub(crate) passes_ad: bool,
    /// As [`Domain::validate`].
    pub(crate) validates: bool,
}

impl CacheView {
    /// Whether AD of its servers' answers is passed on.
    pub(crate) fn trusts_ad(self) -> bool {
        self.passes_ad && !self.validates
    }
}

/// The rules for all clients, and those of partitions.
#[derive(Clone)]
pub(crate) struct CacheViews {
    shared: Realms,
    /// `None` without rules of partitions.
    own: Option<Arc<OwnRules>>,
}

/// The rules of all partitions.
struct OwnRules {
    key: HashKey,
    /// Their domains.
    domains: Realms,
    /// The first is [`Partition::SHARED`], which has none.
    partitions: Box<[OwnRealms]>,
}

/// The rules of one partition.
struct OwnRealms {
    partition: Partition,
    realms: Realms,
    /// Makes the numbers of its views across the border.
    salt: u32,
}

impl CacheViews {
    /// Compiles the rules of `domains`; the last of several for one domain and partition counts. `anchors` is
    /// the fingerprint of the trust anchors: answers validated with others, or not validated where validation
    /// is on, are never served.
    pub(crate) fn new(domains: &[Domain], key: &HashKey, anchors: u32) -> Self {
        let of = |partition| domains.iter().filter(move |domain| domain.partition == partition);
        let shared = Realms::new(of(Partition::SHARED), key, anchors, &mut HashSet::new());
        let mut partitions: Vec<Partition> = domains.iter().map(|domain| domain.partition).collect();
        partitions.push(Partition::SHARED);
        partitions.sort_unstable();
        partitions.dedup();
        if partitions.len() == 1 {
            return CacheViews { shared, own: None };
        }
        let mut taken: HashSet<u32> = shared.all().map(|cache_view| cache_view.number).collect();
        let mut realms = |partition: &Partition| {
            let of_partition = of(*partition).filter(|domain| !domain.partition.is_shared());
            (*partition, Realms::new(of_partition, key, anchors, &mut taken))
        };
        let realms: Vec<(Partition, Realms)> = partitions.iter().map(&mut realms).collect();
        let with_salt = |(partition, realms): (Partition, Realms)| {
            let salt = salt(partition, &shared, &mut taken);
            OwnRealms { partition, realms, salt }
        };
        let partitions = realms.into_iter().map(with_salt).collect();
        let own = domains.iter().filter(|domain| !domain.partition.is_shared());
        let domains = Realms::new(own, key, anchors, &mut HashSet::new());
        CacheViews { shared, own: Some(Arc::new(OwnRules { key: *key, domains, partitions })) }
    }

    /// Returns the rule for all clients that covers a query. DS belongs to the parent's zone, so at a rule's
    /// own domain the rule above counts (RFC 4035 §3.1.4.1).
    #[inline]
    pub(crate) fn of(&self, qname: &HashedName, qtype: Type) -> Option<CacheView> {
        self.shared.of(qname, qtype)
    }

    /// Whether the rule that covers a query may depend on the client.
    #[inline]
    pub(crate) fn may_depend_on_client(&self, qname: &HashedName, qtype: Type) -> bool {
        self.own.as_ref().is_some_and(|own| own.domains.of(qname, qtype).is_some())
    }

    /// Returns the rule that covers a query of a client of this partition.
    pub(crate) fn for_client(
        &self,
        partition: Partition,
        qname: &HashedName,
        qtype: Type,
    ) -> Option<CacheView> {
        let own = self.own_of(partition).and_then(|own| self.closer(&own.realms, qname, qtype));
        own.or_else(|| self.of(qname, qtype))
    }

    /// Returns the rule for the lookup of a query; `qname` is its name under `key`. `None` if no rule covers
    /// it, or if its partition has gone.
    pub(crate) fn of_hashed(&self, query_key: &QueryKey, qname: &HashedName) -> Option<CacheView> {
        match query_key.partition.is_shared() {
            true => self.of(qname, query_key.qtype),
            false => self.closer(&self.own_of(query_key.partition)?.realms, qname, query_key.qtype),
        }
    }

    /// Like [`of_hashed`](Self::of_hashed), for a name without hashes; they are computed only if there are
    /// rules below the root.
    pub(crate) fn of_query(&self, key: &HashKey, query_key: &QueryKey) -> Option<CacheView> {
        if query_key.partition.is_shared() && !self.shared.any {
            return self.shared.root;
        }
        let mut hashed = HashedName::new();
        hashed.set(key, query_key.name.as_name());
        self.of_hashed(query_key, &hashed)
    }

    /// Returns the partition of lookups of a name for clients of this partition: the partition itself, if a
    /// rule of its own covers the name.
    pub(crate) fn partition(&self, of_client: Partition, name: LowerName<'_>, qtype: Type) -> Partition {
        match self.own_of(of_client).filter(|own| self.has_own(own, name, qtype)) {
            Some(own) => own.partition,
            None => Partition::SHARED,
        }
    }

    /// Whether a partition has rules.
    pub(crate) fn has(&self, partition: Partition) -> bool {
        partition.is_shared() || self.own_of(partition).is_some()
    }

    /// The partitions with rules of their own.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> {
        let all = self.own.as_ref().map(|own| own.partitions.iter());
        all.into_iter().flatten().map(|own| own.partition).filter(|partition| !partition.is_shared())
    }

    /// Whether an answer to a query with these aliases depends on the client, though the query name does not:
    /// some partition has rules of its own for a target, but none for the query name.
    pub(crate) fn is_across(
        &self,
        query_key: &QueryKey,
        targets: impl IntoIterator<Item = LowerNameBuf>,
    ) -> bool {
        let QueryKey { name, qtype, partition, .. } = query_key;
        let Some(own) = self.own.as_ref().filter(|_| partition.is_shared()) else { return false };
        targets.into_iter().any(|target| {
            own.partitions.iter().any(|own| {
                self.has_own(own, target.as_lower(), *qtype) && !self.has_own(own, name.as_lower(), *qtype)
            })
        })
    }

    /// Like [`is_across`](Self::is_across), with the aliases in the answer section of a response.
    pub(crate) fn is_answer_across(&self, query_key: &QueryKey, message: &[u8]) -> bool {
        // A malformed message is no answer of ours.
        self.own.is_some() && targets(message).is_ok_and(|targets| self.is_across(query_key, targets))
    }

    /// Returns the view of the answers to a query for clients of this partition whose aliases lead to names
    /// that partitions have rules for. `None` if there are no such answers.
    pub(crate) fn across(&self, of_client: Partition, query_key: &QueryKey) -> Option<CacheView> {
        let own = self.own_of(of_client).filter(|_| query_key.partition.is_shared())?;
        let cache_view = self.of_query(&self.own.as_ref()?.key, query_key)?;
        Some(CacheView { number: across(cache_view.number, own.salt), ..cache_view })
    }

    /// Returns the partition whose clients get a cached answer of this view; `None` if no client does.
    pub(crate) fn partition_of_view(&self, query_key: &QueryKey, number: u32) -> Option<Partition> {
        let shared = QueryKey { partition: Partition::SHARED, ..*query_key };
        let Some(own) = &self.own else { return Some(Partition::SHARED) };
        let is_of = |cache_view: Option<CacheView>| cache_view.is_some_and(|view| view.number == number);
        if is_of(self.of_query(&own.key, &shared)) {
            return Some(Partition::SHARED);
        }
        let mut all = own.partitions.iter().map(|own| own.partition);
        all.find(|partition| {
            let of_own = QueryKey { partition: *partition, ..*query_key };
            is_of(self.of_query(&own.key, &of_own)) || is_of(self.across(*partition, &shared))
        })
    }

    /// Returns the domain of a rule.
    pub(crate) fn domain(&self, cache_view: CacheView) -> Option<LowerNameBuf> {
        match self.own_of(cache_view.partition).filter(|own| !own.partition.is_shared()) {
            Some(own) => own.realms.domain(cache_view),
            None => self.shared.domain(cache_view),
        }
    }

    fn own_of(&self, partition: Partition) -> Option<&OwnRealms> {
        let own = self.own.as_ref()?;
        let at = own.partitions.binary_search_by_key(&partition, |own| own.partition).ok()?;
        own.partitions.get(at)
    }

    /// Whether a rule of a partition covers a query.
    fn has_own(&self, own: &OwnRealms, name: LowerName<'_>, qtype: Type) -> bool {
        let Some(OwnRules { key, .. }) = self.own.as_deref() else { return false };
        let mut hashed = HashedName::new();
        hashed.set(key, name.as_name());
        self.closer(&own.realms, &hashed, qtype).is_some()
    }

    /// Returns the rule of a partition that covers a query, unless one for all has a longer domain.
    fn closer(&self, own: &Realms, qname: &HashedName, qtype: Type) -> Option<CacheView> {
        let (skip, cache_view) = own.closest(qname, qtype)?;
        let shared = self.shared.closest(qname, qtype).is_some_and(|(shared, _)| shared < skip);
        (!shared).then_some(cache_view)
    }
}

/// Rules by domain.
#[derive(Clone)]
struct Realms {
    root: Option<CacheView>,
    /// The rules of all other domains, by the domain's hash: open addressing, at most half full.
    slots: Box<[Option<(u64, LowerNameBuf, CacheView)>]>,
    /// Whether a rule has a domain other than the root.
    any: bool,
}

impl Realms {
    /// Compiles rules. Numbers of partitions' views are none of `taken`, and are added to it.
    fn new<'d>(
        domains: impl Iterator<Item = &'d Domain>,
        key: &HashKey,
        anchors: u32,
        taken: &mut HashSet<u32>,
    ) -> Self {
        let domains: Vec<&Domain> = domains.collect();
        let size = (domains.len() * 2).next_power_of_two();
        let mut cache_views = Realms { root: None, slots: vec![None; size].into(), any: false };
        for domain in domains {
            let name = domain.name.as_name().to_lower();
            let anchors = domain.validate.then_some(anchors);
            let cache_view = CacheView {
                number: match domain.partition.is_shared() {
                    true => number(name.as_lower(), anchors),
                    false => own_number(name.as_lower(), anchors, domain.partition, taken),
                },
                partition: domain.partition,
                passes_ad: domain.trust_ad || domain.validate,
                validates: domain.validate,
            };
            if name.as_lower().label_count() == 0 {
                cache_views.root = Some(cache_view);
                continue;
            }
            cache_views.any = true;
            let hash = key.name(name.as_lower()).bits();
            let at = cache_views.place(hash, name.as_lower());
            if let Some(slot) = at.and_then(|at| cache_views.slots.get_mut(at)) {
                *slot = Some((hash, name, cache_view));
            }
        }
        cache_views
    }

    /// Returns the slot of a domain, or the free slot where it belongs.
    fn place(&self, hash: u64, name: LowerName<'_>) -> Option<usize> {
        let mask = self.slots.len() - 1;
        (0..self.slots.len()).map(|step| (hash as usize).wrapping_add(step) & mask).find(|&at| {
            match &self.slots[at] {
                None => true,
                Some((held, domain, _)) => *held == hash && domain.as_lower() == name,
            }
        })
    }

    #[inline]
    fn of(&self, qname: &HashedName, qtype: Type) -> Option<CacheView> {
        if self.any { self.closest(qname, qtype).map(|(_, cache_view)| cache_view) } else { self.root }
    }

    fn domain(&self, cache_view: CacheView) -> Option<LowerNameBuf> {
        if self.root == Some(cache_view) {
            return Some(Name::ROOT.to_lower());
        }
        let mut held = self.slots.iter().flatten();
        held.find(|(_, _, other)| other.number == cache_view.number).map(|(_, domain, _)| *domain)
    }

    /// Returns the rule with the longest domain, and how many labels of the name are in front of the domain.
    fn closest(&self, qname: &HashedName, qtype: Type) -> Option<(usize, CacheView)> {
        let from = usize::from(qtype == Type::DS);
        let held = |skip| {
            let at = self.place(qname.hash(skip).bits(), qname.suffix(skip))?;
            self.slots[at].as_ref().map(|(_, _, cache_view)| (skip, *cache_view))
        };
        let found = (from..qname.label_count()).filter(|_| self.any).find_map(held);
        found.or_else(|| Some((qname.label_count(), self.root?)))
    }

    fn all(&self) -> impl Iterator<Item = CacheView> {
        self.slots.iter().flatten().map(|(_, _, cache_view)| *cache_view).chain(self.root)
    }
}

/// Adds a byte to a hash by FNV-1a.
fn fold(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

fn fold_all(hash: u32, number: u32) -> u32 {
    number.to_be_bytes().into_iter().fold(hash, fold)
}

/// Returns the number of a domain: FNV-1a over its name and, if validated, the anchors' fingerprint. Equal
/// numbers of two domains do no harm, since cached answers are also keyed by their names.
fn number(name: LowerName<'_>, anchors: Option<u32>) -> u32 {
    let hash = name.as_wire().iter().copied().fold(0x811c_9dc5, fold);
    anchors.into_iter().fold(hash, fold_all)
}

/// Returns the number of a partition's domain. Equal numbers would mix the answers for names that are in
/// both, so it is none of `taken`.
fn own_number(
    name: LowerName<'_>,
    anchors: Option<u32>,
    partition: Partition,
    taken: &mut HashSet<u32>,
) -> u32 {
    let mut own = fold_all(number(name, anchors), partition.number());
    while !taken.insert(own) {
        own = fold(own, 1);
    }
    own
}

/// Returns a salt with which the views across the border have other numbers than all `taken`, and adds these.
fn salt(partition: Partition, shared: &Realms, taken: &mut HashSet<u32>) -> u32 {
    let mut salt = fold_all(0x811c_9dc5, partition.number());
    let numbers = |salt| shared.all().map(move |cache_view| across(cache_view.number, salt));
    while numbers(salt).any(|number| taken.contains(&number)) {
        salt = fold(salt, 1);
    }
    taken.extend(numbers(salt));
    salt
}

/// Returns the number of a view across the border.
fn across(number: u32, salt: u32) -> u32 {
    fold_all(number, salt)
}

/// Returns the targets of the aliases in the answer section of a response with one question.
fn targets(message: &[u8]) -> Result<Vec<LowerNameBuf>, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    parser.question()?;
    let [_, answers, ..] = header.counts();
    let (mut targets, mut rdata) = (Vec::new(), Vec::new());
    for _ in 0..answers {
        let record = parser.record()?;
        if record.rtype == Type::CNAME {
            rdata.clear();
            parser.expand_rdata(&record, &mut rdata)?;
            targets.push(Name::from_wire(&rdata).map_err(|_| Malformed)?.to_lower());
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(name: &str, partition: u32) -> Domain {
        let (name, partition) = (name.parse().expect("a name"), Partition::numbered(partition));
        Domain { name, partition, trust_ad: false, validate: false }
    }

    fn query_key(name: NameBuf, qtype: Type) -> QueryKey {
        QueryKey {
            name: name.as_name().to_lower(),
            qtype,
            qclass: wire::Class::IN,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::SHARED,
        }
    }

    fn cache_views(domains: &[&str]) -> impl Fn(&str, Type) -> Option<u32> {
        let key = HashKey::new([1, 2, 3]);
        let domains: Vec<Domain> = domains.iter().map(|name| domain(name, 0)).collect();
        let cache_views = CacheViews::new(&domains, &key, 0);
        move |name, qtype| {
            let name: NameBuf = name.parse().expect("a name");
            let mut hashed = HashedName::new();
            hashed.set(&key, name.as_name());
            let cache_view = cache_views.of(&hashed, qtype);
            assert_eq!(cache_views.of_query(&key, &query_key(name, qtype)), cache_view);
            assert!(!cache_views.may_depend_on_client(&hashed, qtype));
            cache_view.map(|cache_view| cache_view.number)
        }
    }

    fn of(domain: &str) -> Option<u32> {
        Some(number(domain.parse::<NameBuf>().expect("a name").as_name().to_lower().as_lower(), None))
    }

    #[test]
    fn the_longest_domain_counts() {
        let cache_view = cache_views(&["example.", "corp.example.", "."]);
        assert_eq!(cache_view("www.Corp.Example.", Type::A), of("corp.example."));
        assert_eq!(cache_view("corp.example.", Type::A), of("corp.example."));
        assert_eq!(cache_view("xcorp.example.", Type::A), of("example."));
        assert_eq!(cache_view("test.", Type::A), of("."));
        assert_eq!(cache_view(".", Type::NS), of("."));
    }

    #[test]
    fn ds_at_a_domain_is_the_parents() {
        let cache_view = cache_views(&["example.", "corp.example."]);
        assert_eq!(cache_view("corp.example.", Type::DS), of("example."));
        assert_eq!(cache_view("x.corp.example.", Type::DS), of("corp.example."));
        assert_eq!(cache_view("example.", Type::DS), None);
    }

    #[test]
    fn what_is_validated_otherwise_is_of_another_realm() {
        let root = NameBuf::ROOT.as_name().to_lower();
        let number = |anchors| number(root.as_lower(), anchors);
        assert_ne!(number(None), number(Some(0)));
        assert_ne!(number(Some(1)), number(Some(2)));
    }

    #[test]
    fn where_no_rule_is_there_is_no_realm() {
        assert_eq!(cache_views(&[])("www.example.", Type::A), None);
        assert_eq!(cache_views(&["example."])("www.test.", Type::A), None);
    }

    /// Two partitions: 1 has rules for `corp.example.` and `lab.corp.example.`, 2 for all names. There are
    /// rules for all for the root and for `public.corp.example.`.
    fn partitioned() -> (HashKey, CacheViews) {
        let key = HashKey::new([1, 2, 3]);
        let of =
            [(".", 0), ("public.corp.example.", 0), ("corp.example.", 1), ("lab.corp.example.", 1), (".", 2)];
        let domains: Vec<Domain> = of.iter().map(|(name, partition)| domain(name, *partition)).collect();
        (key, CacheViews::new(&domains, &key, 0))
    }

    const NAMES: [&str; 5] = [
        "www.example.",
        "corp.example.",
        "www.corp.example.",
        "a.public.corp.example.",
        "x.lab.corp.example.",
    ];

    #[test]
    fn the_longest_domain_of_the_partition_and_of_all_counts() {
        let (key, cache_views) = partitioned();
        let partition = |of: u32, name: &str| {
            let name: NameBuf = name.parse().expect("a name");
            let mut hashed = HashedName::new();
            hashed.set(&key, name.as_name());
            let own =
                cache_views.partition(Partition::numbered(of), name.as_name().to_lower().as_lower(), Type::A);
            let cache_view =
                cache_views.for_client(Partition::numbered(of), &hashed, Type::A).expect("a rule");
            assert_eq!(cache_view.partition, own);
            let asked = QueryKey { partition: own, ..query_key(name, Type::A) };
            assert_eq!(cache_views.of_hashed(&asked, &hashed), Some(cache_view));
            assert_eq!(cache_views.partition_of_view(&asked, cache_view.number), Some(own));
            own.number()
        };
        assert_eq!(NAMES.map(|name| partition(0, name)), [0; 5]);
        assert_eq!(NAMES.map(|name| partition(1, name)), [0, 1, 1, 0, 1]);
        assert_eq!(NAMES.map(|name| partition(2, name)), [2, 2, 2, 0, 2]);
        assert_eq!(NAMES.map(|name| partition(9, name)), [0; 5], "it has no rules");
        let name: NameBuf = "corp.example.".parse().expect("a name");
        let of_ds =
            cache_views.partition(Partition::numbered(1), name.as_name().to_lower().as_lower(), Type::DS);
        assert_eq!(of_ds, Partition::SHARED, "DS is the parent's");
    }

    #[test]
    fn no_two_views_of_a_name_have_the_same_number() {
        let (key, cache_views) = partitioned();
        for name in NAMES {
            let name: NameBuf = name.parse().expect("a name");
            let shared = query_key(name, Type::A);
            let own = (0..3).map(|of| QueryKey { partition: Partition::numbered(of), ..shared });
            let mut numbers: Vec<u32> =
                own.filter_map(|own| cache_views.of_query(&key, &own)).map(|view| view.number).collect();
            numbers.extend((0..3).filter_map(|of| {
                cache_views.across(Partition::numbered(of), &shared).map(|view| view.number)
            }));
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), count);
            assert!(count >= 4, "all have those across the border");
        }
    }

    #[test]
    fn an_equal_number_is_replaced() {
        let name = "corp.example.".parse::<NameBuf>().expect("a name").as_name().to_lower();
        let mut taken = HashSet::new();
        let first = own_number(name.as_lower(), None, Partition::numbered(1), &mut taken);
        assert_ne!(own_number(name.as_lower(), None, Partition::numbered(1), &mut taken), first);
    }

    #[test]
    fn an_alias_into_a_partitions_names_crosses_the_border() {
        let (key, cache_views) = {
            let key = HashKey::new([1, 2, 3]);
            let of = [(".", 0), ("public.corp.example.", 0), ("corp.example.", 1)];
            let domains: Vec<Domain> = of.iter().map(|(name, of)| domain(name, *of)).collect();
            (key, CacheViews::new(&domains, &key, 0))
        };
        let is_across = |from: &str, to: &str| {
            let [from, to] = [from, to].map(|name| name.parse::<NameBuf>().expect("a name"));
            cache_views.is_across(&query_key(from, Type::A), [to.as_name().to_lower()])
        };
        assert!(is_across("www.example.", "host.corp.example."));
        assert!(is_across("a.public.corp.example.", "host.corp.example."));
        assert!(!is_across("www.example.", "a.public.corp.example."));
        assert!(!is_across("host.corp.example.", "corp.example."), "clients without the rule alone see it");
        assert!(!is_across("host.corp.example.", "www.example."));
        let of_partition = QueryKey {
            partition: Partition::numbered(1),
            ..query_key("host.corp.example.".parse().expect("a name"), Type::A)
        };
        assert_eq!(
            cache_views.across(Partition::numbered(1), &of_partition),
            None,
            "its answers are its own"
        );
        assert!(cache_views.of_query(&key, &of_partition).is_some());
        let gone = QueryKey { partition: Partition::numbered(7), ..of_partition };
        assert_eq!(cache_views.of_query(&key, &gone), None);
    }
}
