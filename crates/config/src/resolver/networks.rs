//! Networks, and words for sets of networks.

use toml::Spanned;
use toml::de::DeValue;

use wire::{Prefix, PrefixFault};

use crate::report::Diagnostic;
use crate::table::read::Reader;
use crate::table::value::{Value, Word, quote};
use wording::did_you_mean;

/// A network, or a word for a set of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkOr<W> {
    /// The word.
    Word(W),
    /// The network.
    Network(Prefix),
}

impl Value for Prefix {
    fn kind() -> String {
        "network `address/length`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        read::<Prefix>(node, reader, &[], |network| network)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

impl<W: Word> Value for NetworkOr<W> {
    fn kind() -> String {
        format!("{} or {}", Prefix::kind(), W::kind())
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let words: Vec<(&str, Self)> =
            W::WORDS.iter().map(|(text, word)| (*text, Self::Word(*word))).collect();
        read(node, reader, &words, Self::Network)
    }
    fn render(&self) -> Option<String> {
        match self {
            Self::Word(word) => word.render(),
            Self::Network(network) => network.render(),
        }
    }
}

/// Parses one of the words or a network.
fn read<T: Copy>(
    node: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
    words: &[(&str, T)],
    of: fn(Prefix) -> T,
) -> Option<T> {
    let Some(text) = node.get_ref().as_str() else {
        reader.wrong_type(node, "a network such as \"192.0.2.0/24\"");
        return None;
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    let fault = match text.parse() {
        Ok(network) => return Some(of(network)),
        Err(fault) => fault,
    };
    let message = match fault {
        PrefixFault::Address => format!("`{text}` is not a network; write an address, or an address/length"),
        fault => format!("`{text}` is not a network: {fault}"),
    };
    let mut found = Diagnostic::error(reader.place(node.span()), message);
    if let Some(near) = did_you_mean(text, words.iter().map(|(word, _)| *word)) {
        found = found.hint(format!("did you mean \"{near}\"?"));
    }
    reader.faults.push(found);
    None
}
