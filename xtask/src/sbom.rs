//! The bill of materials of the program `nomen`: CycloneDX 1.5, as JSON. The same sources give the same
//! bytes.

use serde_json::{Value, json};

use crate::program::{Key, Package, Program};

/// Returns the document: each package of the program with scope `required`, and those that only its build
/// runs with scope `excluded`.
pub(crate) fn of(program: &Program) -> Value {
    let is_nomen = |key: &Key| key.0 == "nomen";
    let components: Vec<Value> = program
        .packages
        .iter()
        .filter(|(key, _)| !is_nomen(key))
        .map(|(key, package)| component(key, package))
        .collect();
    let dependencies: Vec<Value> = program
        .packages
        .iter()
        .map(|(key, package)| {
            let uses: Vec<String> = package.uses.iter().map(|key| reference(program, key)).collect();
            json!({"ref": reference(program, key), "dependsOn": uses})
        })
        .collect();
    let nomen = program.packages.iter().find(|(key, _)| is_nomen(key)).map(|(key, package)| {
        let mut nomen = component(key, package);
        nomen["type"] = json!("application");
        nomen
    });
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": nomen},
        "components": components,
        "dependencies": dependencies,
    })
}

fn reference(program: &Program, key: &Key) -> String {
    program.packages.get(key).map_or_else(String::new, |package| url(key, package))
}

/// Returns the package URL. Only those of the registry can be looked up.
fn url((name, version): &Key, package: &Package) -> String {
    // A plus sign separates metadata of the build from a version, and has another meaning in URLs.
    let version = version.replace('+', "%2B");
    match package.is_ours {
        true => format!("pkg:generic/{name}@{version}"),
        false => format!("pkg:cargo/{name}@{version}"),
    }
}

fn component(key: &Key, package: &Package) -> Value {
    let url = url(key, package);
    let mut component = json!({
        "type": "library",
        "bom-ref": url,
        "name": key.0,
        "version": key.1,
        "scope": if package.is_linked { "required" } else { "excluded" },
        "licenses": [{"expression": package.licence}],
        "purl": url,
    });
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_package_is_a_component_with_what_it_uses() {
        let package = |is_linked, is_ours, uses: &[&Key]| Package {
            is_linked,
            is_ours,
            has_build_script: false,
            is_macro: false,
            folder: "/src".into(),
            licence: "MIT".to_owned(),
            checksum: (!is_ours).then(|| "ab".to_owned()),
            uses: uses.iter().map(|key| (*key).clone()).collect(),
        };
        let key = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let (nomen, toml, quote) =
            (key("nomen", "0.1.0"), key("toml", "1.2.1+spec-1.1.0"), key("quote", "1.0.0"));
        let packages = BTreeMap::from([
            (nomen.clone(), package(true, true, &[&toml])),
            (toml.clone(), package(true, false, &[&quote])),
            (quote.clone(), package(false, false, &[])),
        ]);
        let bill = of(&Program { packages });
        assert_eq!(bill["metadata"]["component"]["type"], "application");
        assert_eq!(bill["metadata"]["component"]["version"], "0.1.0");
        let found: Vec<(&str, &str)> = bill["components"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|c| Some((c["name"].as_str()?, c["scope"].as_str()?)))
            .collect();
        assert_eq!(found, [("quote", "excluded"), ("toml", "required")]);
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "ab");
        assert_eq!(bill["dependencies"][0]["dependsOn"][0], "pkg:cargo/toml@1.2.1%2Bspec-1.1.0");
        assert_eq!(bill["dependencies"][2]["dependsOn"][0], "pkg:cargo/quote@1.0.0");
    }
}
