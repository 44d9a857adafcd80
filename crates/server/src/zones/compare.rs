//! Whether two versions of a zone hold the same records, in whatever order their text has them.

use zone::Zone;
use zone::store::RrSet;

/// Whether both hold the same records, with the same TTLs and signatures. Letter case counts.
pub(super) fn same_records(a: &Zone, b: &Zone) -> bool {
    a.record_count() == b.record_count()
        && a.node_count() == b.node_count()
        && a.iter().zip(b.iter()).all(|(a, b)| {
            a.written_owner().as_name().as_wire() == b.written_owner().as_name().as_wire()
                && a.rrset_count() == b.rrset_count()
                && a.rrsets().all(|set| b.rrset(set.rtype()).is_some_and(|other| same_set(&set, &other)))
        })
}

fn same_set(a: &RrSet<'_>, b: &RrSet<'_>) -> bool {
    // As they are compiled they are equal if their order is.
    a.records_and_sigs() == b.records_and_sigs() || sorted(a) == sorted(b)
}

/// Every record and signature of a set: its TTL and data.
fn sorted(set: &RrSet<'_>) -> [Vec<(u32, Vec<u8>)>; 2] {
    let whole = |record: zone::store::Rdata<'_>| {
        let mut data = Vec::new();
        record.copy_to(&mut data);
        (record.ttl().as_secs(), data)
    };
    let mut both = [set.rdatas().map(whole).collect::<Vec<_>>(), set.sig_rdatas().map(whole).collect()];
    both.iter_mut().for_each(|records| records.sort());
    both
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use wire::NameBuf;
    use wire::hash::HashKey;
    use zone::LoadConfig;
    use zone::scan::TextSource;

    use super::*;

    fn zone(text: &str) -> Zone {
        let apex: NameBuf = "example.".parse().expect("a name");
        let text = format!("$TTL 60\n@ SOA ns1 admin 1 2 3 4 5\n@ NS ns1\n{text}");
        let source = TextSource::bytes("test", text.as_bytes());
        let (key, config) = (HashKey::new([1, 2, 3]), LoadConfig::default());
        let loaded = zone::load::load(source, apex.as_name(), &key, &config, |_| ControlFlow::Continue(()));
        loaded.expect("a zone").zone
    }

    #[test]
    fn any_difference_counts_but_the_order() {
        let one = zone("a A 192.0.2.1\na A 192.0.2.2\nb MX 1 a\n");
        assert!(same_records(&one, &zone("b MX 1 a\na A 192.0.2.2\na A 192.0.2.1\n")));
        for other in [
            "a A 192.0.2.1\na A 192.0.2.3\nb MX 1 a\n",
            "a 61 A 192.0.2.1\na 61 A 192.0.2.2\nb MX 1 a\n",
            "a A 192.0.2.1\na A 192.0.2.2\nb MX 2 a\n",
            "a A 192.0.2.1\na A 192.0.2.2\nc MX 1 a\n",
            "a A 192.0.2.1\na A 192.0.2.2\nB MX 1 a\n",
            "a A 192.0.2.1\na A 192.0.2.2\nb MX 1 A\n",
            "a A 192.0.2.1\na A 192.0.2.2\n",
        ] {
            assert!(!same_records(&one, &zone(other)), "{other}");
        }
    }
}
