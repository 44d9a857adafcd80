//! Links between names of the small Internet: CNAMEs and DNAMEs to their targets, zones to the names of their
//! servers.

use crate::name::Name;
use crate::zones::Zone;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// CNAMEs, DNAMEs and name servers of all zones.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Targets of CNAME records, by owner.
    aliases: BTreeMap<Name, Name>,
    /// Targets of DNAME records, by owner.
    redirections: BTreeMap<Name, Name>,
    /// Names of the servers of each zone, by apex.
    servers: BTreeMap<Name, BTreeSet<Name>>,
}

impl Links {
    /// Reads the zone files.
    pub(crate) fn read(zones: &[Zone]) -> Result<Self, String> {
        let mut links = Self::default();
        for zone in zones {
            let text = fs::read_to_string(&zone.full).map_err(|e| format!("{}: {e}", zone.full.display()))?;
            text.lines().for_each(|line| links.add(line));
        }
        Ok(links)
    }

    /// Adds a record, given as a whole line.
    pub(crate) fn add(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [owner, _, _, rtype, target] = words[..] else { return };
        let (Some(owner), Some(target)) = (Name::from_text(owner), Name::from_text(target)) else { return };
        let (owner, target) = (owner.lower(), target.lower());
        match rtype {
            "CNAME" => drop(self.aliases.insert(owner, target)),
            "DNAME" => drop(self.redirections.insert(owner, target)),
            "NS" => drop(self.servers.entry(owner).or_default().insert(target)),
            _ => {}
        }
    }

    /// Returns all names that may have to be resolved for `name`: itself, the targets of CNAMEs and DNAMEs,
    /// and the names of the servers of all zones that contain any of these.
    pub(crate) fn on_the_way(&self, name: &Name) -> BTreeSet<Name> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![name.lower()]);
        while let Some(name) = next.pop() {
            if seen.insert(name.clone()) {
                next.extend(self.target(&name));
                let of_zones = self.servers.iter().filter(|(apex, _)| name.is_under(apex));
                next.extend(of_zones.flat_map(|(_, servers)| servers).cloned());
            }
        }
        seen
    }

    /// Returns the name's next target: by its own CNAME, that of a wildcard, or a DNAME above it.
    fn target(&self, name: &Name) -> Option<Name> {
        if let Some(target) = self.aliases.get(name) {
            return Some(target.clone());
        }
        for above in 1..=name.0.len() {
            let (below, ancestor) = name.0.split_at(above);
            let ancestor = Name(ancestor.to_vec());
            if let Some(target) = self.redirections.get(&ancestor) {
                let moved = Name([below, &target.0[..]].concat());
                return moved.is_legal().then_some(moved);
            }
            if let Some(target) = self.aliases.get(&ancestor.child(b"*")) {
                return Some(target.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_and_servers_are_followed_to_their_ends() {
        let mut links = Links::default();
        for line in [
            "a.one. 60 IN NS ns.two.",
            "two. 60 IN NS ns.three.",
            "x.a.one. 60 IN CNAME y.four.",
            "moved.four. 60 IN DNAME tree.five.",
            "*.wild.five. 60 IN CNAME loop.five.",
            "loop.five. 60 IN CNAME loop.five.",
            "loop.five. 60 IN RRSIG CNAME 13 2 60 1 1 1 five. AA==",
        ] {
            links.add(line);
        }
        let on_the_way = |name: &str| -> Vec<String> {
            let name = Name::from_text(name).expect("a name");
            links.on_the_way(&name).iter().map(ToString::to_string).collect()
        };
        assert_eq!(on_the_way("x.a.one."), ["ns.three.", "ns.two.", "x.a.one.", "y.four."]);
        assert_eq!(on_the_way("z.moved.four."), ["z.moved.four.", "z.tree.five."]);
        assert_eq!(on_the_way("q.wild.five."), ["loop.five.", "q.wild.five."]);
    }
}
