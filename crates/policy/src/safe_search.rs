//! Names of search engines, and the names at which each leaves adult content out, as the engines document it.

/// An engine: its names, and the name that they are aliases of.
pub(crate) struct Engine {
    pub(crate) names: &'static [&'static str],
    pub(crate) target: &'static str,
}

/// The engines but Google's search, whose names are made of [`GOOGLE`].
pub(crate) const ENGINES: [Engine; 7] = [
    Engine {
        names: &[
            "www.youtube.com",
            "m.youtube.com",
            "youtubei.googleapis.com",
            "youtube.googleapis.com",
            "www.youtube-nocookie.com",
        ],
        target: "restrictmoderate.youtube.com",
    },
    Engine { names: &["www.bing.com", "bing.com"], target: "strict.bing.com" },
    Engine {
        names: &["duckduckgo.com", "www.duckduckgo.com", "start.duckduckgo.com", "duck.com", "www.duck.com"],
        target: "safe.duckduckgo.com",
    },
    Engine { names: &["pixabay.com"], target: "safesearch.pixabay.com" },
    Engine { names: &["www.ecosia.org"], target: "strict-safe-search.ecosia.org" },
    Engine { names: &["search.brave.com"], target: "forcesafe.search.brave.com" },
    Engine { names: &["api.qwant.com"], target: "safeapi.qwant.com" },
];

/// The name at which Google's search leaves adult content out.
pub(crate) const GOOGLE_TARGET: &str = "forcesafesearch.google.com";

/// The domains behind `google.` at which Google offers its search.
pub(crate) const GOOGLE: &str = "com ad ae com.af com.ag al am co.ao com.ar as at com.au az ba com.bd be bf bg com.bh \
    bi bj com.bn com.bo com.br bs bt co.bw by com.bz ca cd cf cg ch ci co.ck cl cm cn com.co co.cr com.cu cv com.cy \
    cz de dj dk dm com.do dz com.ec ee com.eg es com.et fi com.fj fm fr ga ge gg com.gh com.gi gl gm gr com.gt gy \
    com.hk hn hr ht hu co.id ie co.il im co.in iq is it je com.jm jo co.jp co.ke com.kh ki kg co.kr com.kw kz la \
    com.lb li lk co.ls lt lu lv com.ly co.ma md me mg mk ml com.mm mn com.mt mu mv mw com.mx com.my co.mz com.na \
    com.ng com.ni ne nl no com.np nr nu co.nz com.om com.pa com.pe com.pg com.ph com.pk pl pn com.pr ps pt com.py \
    com.qa ro ru rw com.sa com.sb sc se com.sg sh si sk com.sl sn so sm sr st com.sv td tg co.th com.tj tl tm tn \
    to com.tr tt com.tw co.tz com.ua co.ug co.uk com.uy co.uz com.vc co.ve co.vi com.vn vu ws rs co.za co.zm co.zw \
    cat";

/// Calls `each` with every name and its target.
pub(crate) fn all(mut each: impl FnMut(&str, &str)) {
    for Engine { names, target } in &ENGINES {
        names.iter().for_each(|name| each(name, target));
    }
    for domain in GOOGLE.split_whitespace() {
        each(&format!("www.google.{domain}"), GOOGLE_TARGET);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use wire::NameBuf;

    use super::*;

    #[test]
    fn every_name_is_one_and_stands_once_and_no_target_is_an_alias() {
        let (mut names, mut targets) = (HashSet::new(), HashSet::new());
        all(|name, target| {
            for text in [name, target] {
                assert!(format!("{text}.").parse::<NameBuf>().is_ok(), "{text}");
            }
            assert!(names.insert(name.to_owned()), "{name} stands twice");
            targets.insert(target.to_owned());
        });
        assert!(names.len() > 190, "{}", names.len());
        assert!(names.is_disjoint(&targets));
    }
}
