//! Finds the rule that covers a name: the one with the longest domain. Answers cached for the names of one
//! rule are never served for another's. The number that separates them, the cache view, survives restarts.

use wire::hash::{HashKey, HashedName};
use wire::{LowerName, LowerNameBuf, Name, NameBuf, Type};

/// A domain with upstream servers of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its name; the root for all names.
    pub name: NameBuf,
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

/// The rules, by domain.
#[derive(Clone)]
pub(crate) struct Realms {
    root: Option<CacheView>,
    /// The rules of all other domains, by the domain's hash: open addressing, at most half full.
    slots: Box<[Option<(u64, LowerNameBuf, CacheView)>]>,
    /// Whether a rule has a domain other than the root.
    any: bool,
}

impl Realms {
    /// Compiles the rules of `domains`; the last of several for one domain counts. `anchors` is the
    /// fingerprint of the trust anchors: answers validated with others, or not validated where validation is
    /// on, are never served.
    pub(crate) fn new(domains: &[Domain], key: &HashKey, anchors: u32) -> Self {
        let size = (domains.len() * 2).next_power_of_two();
        let mut cache_views = Realms { root: None, slots: vec![None; size].into(), any: false };
        for domain in domains {
            let name = domain.name.as_name().to_lower();
            let cache_view = CacheView {
                number: number(name.as_lower(), domain.validate.then_some(anchors)),
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

    /// Returns the rule that covers a query. DS belongs to the parent's zone, so at a rule's own domain the
    /// rule above counts (RFC 4035 §3.1.4.1).
    #[inline]
    pub(crate) fn of(&self, qname: &HashedName, qtype: Type) -> Option<CacheView> {
        if self.any { self.closest(qname, qtype) } else { self.root }
    }

    /// Like [`of`](Self::of), for a name without hashes under `key`; they are computed only if there are
    /// rules below the root.
    pub(crate) fn of_name(&self, key: &HashKey, name: LowerName<'_>, qtype: Type) -> Option<CacheView> {
        if !self.any {
            return self.root;
        }
        let mut hashed = HashedName::new();
        hashed.set(key, name.as_name());
        self.closest(&hashed, qtype)
    }

    /// Returns the domain of a rule.
    pub(crate) fn domain(&self, cache_view: CacheView) -> Option<LowerNameBuf> {
        if self.root == Some(cache_view) {
            return Some(Name::ROOT.to_lower());
        }
        let mut held = self.slots.iter().flatten();
        held.find(|(_, _, other)| other.number == cache_view.number).map(|(_, domain, _)| *domain)
    }

    fn closest(&self, qname: &HashedName, qtype: Type) -> Option<CacheView> {
        let from = usize::from(qtype == Type::DS);
        let held = |skip| {
            let at = self.place(qname.hash(skip).bits(), qname.suffix(skip))?;
            self.slots[at].as_ref().map(|(_, _, cache_view)| *cache_view)
        };
        (from..qname.label_count()).find_map(held).or(self.root)
    }
}

/// Returns the number of a domain: FNV-1a over its name and, if validated, the anchors' fingerprint. Equal
/// numbers of two domains do no harm, since cached answers are also keyed by their names.
fn number(name: LowerName<'_>, anchors: Option<u32>) -> u32 {
    let fold = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = name.as_wire().iter().fold(0x811c_9dc5, fold);
    anchors.iter().flat_map(|anchors| anchors.to_be_bytes()).fold(hash, |hash, byte| fold(hash, &byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_views(domains: &[&str]) -> impl Fn(&str, Type) -> Option<u32> {
        let key = HashKey::new([1, 2, 3]);
        let domain =
            |name: &&str| Domain { name: name.parse().expect("a name"), trust_ad: false, validate: false };
        let cache_views = Realms::new(&domains.iter().map(domain).collect::<Vec<_>>(), &key, 0);
        move |name, qtype| {
            let name: NameBuf = name.parse().expect("a name");
            let mut hashed = HashedName::new();
            hashed.set(&key, name.as_name());
            let cache_view = cache_views.of(&hashed, qtype);
            assert_eq!(cache_views.of_name(&key, name.as_name().to_lower().as_lower(), qtype), cache_view);
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
}
