//! The configuration: any text is accepted, or rejected with an error that has a position.
//!
//! docs/CONFIGURATION.md: "Unknown keys are errors." And TOML 1.0: "A TOML file must be a valid UTF-8 encoded
//! Unicode document": every reported position is in the text, at a character boundary.

use std::path::Path;

use config::read_text;
use config::report::{ConfigTexts, Diagnostic};

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // An include would read files of the machine.
    if text.contains("include") || text.contains("\\u") || text.contains("\\U") {
        return;
    }
    if let Err(rejected) = read_text("nomen.toml", text.to_owned(), Path::new("/nonexistent")) {
        assert!(!rejected.faults.is_empty());
        places(&rejected.sources, &rejected.faults, text);
        assert!(!rejected.to_string().is_empty());
    }

    // An unknown key is an error, whatever else is in the text.
    let with_stranger = format!("stranger = 1\n{text}");
    assert!(
        read_text("nomen.toml", with_stranger, Path::new("/nonexistent")).is_err(),
        "an unknown key was taken"
    );
}

fn places(sources: &ConfigTexts, faults: &[Diagnostic], text: &str) {
    let lines = text.lines().count() + 1;
    for fault in faults {
        assert!(!fault.message.is_empty());
        for place in fault.place.iter().chain(fault.related.iter().map(|(place, _)| place)) {
            assert!(text.get(place.span.clone()).is_some(), "{fault:?}");
            let (line, column) = sources.line_column(place);
            assert!((1..=lines).contains(&line) && column >= 1, "{fault:?}");
        }
    }
}
