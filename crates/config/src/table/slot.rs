//! The top-level slots that sections are read into. The type of the slot determines how often a section may
//! occur: [`At`] once and always in force, `Option` once and off if missing, `Vec` any number of times,
//! `BTreeMap` any number of times under names. Blocks inside a section have their own slot.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::read::{At, Reader};
use super::{ConfigSection, SectionDoc};
use crate::report::Diagnostic;

/// A slot for sections of one kind.
pub trait SectionSlot {
    /// Returns the top-level key.
    fn name(&self) -> &'static str;

    /// Reads the value of that key; reports faults to the reader.
    fn read(&mut self, node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>);

    /// Returns the reference page's entry for the section.
    fn describe(&self) -> SectionDoc;
}

/// Reads the value of a top-level name, and each block inside it into its own slot. Returns whether a slot of
/// that name exists.
pub fn read_section(
    slots: &mut [&mut dyn SectionSlot],
    name: &str,
    node: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
) -> bool {
    let inside = |slot: &dyn SectionSlot| slot.name().strip_prefix(name)?.strip_prefix('.');
    let blocks = slots.iter().filter_map(|slot| inside(&**slot)).collect();
    let Some(slot) = slots.iter_mut().find(|slot| slot.name() == name) else { return false };
    reader.blocks = blocks;
    slot.read(node, reader);
    reader.blocks.clear();
    let Some(table) = node.get_ref().as_table() else { return true };
    for slot in slots {
        if let Some(node) = inside(&**slot).and_then(|key| table.get(key)) {
            slot.read(node, reader);
        }
    }
    true
}

fn describe<T: ConfigSection>(on: bool) -> SectionDoc {
    SectionDoc { header: T::HEADER, doc: T::DOC, on, keys: T::describe() }
}

impl<T: ConfigSection> SectionSlot for At<T> {
    fn name(&self) -> &'static str {
        T::name()
    }

    fn read(&mut self, node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) {
        let first = self.place.is_some().then_some(&*self);
        if let Some(section) = read_one(first, node, reader) {
            *self = section;
        }
    }

    fn describe(&self) -> SectionDoc {
        describe::<T>(true)
    }
}

impl<T: ConfigSection> SectionSlot for Option<At<T>> {
    fn name(&self) -> &'static str {
        T::name()
    }

    fn read(&mut self, node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) {
        let first = self.as_ref().filter(|section| section.place.is_some());
        let Some(section) = read_one(first, node, reader) else { return };
        if section.place.is_some() || self.is_none() {
            *self = Some(section);
        }
    }

    fn describe(&self) -> SectionDoc {
        describe::<T>(self.is_some())
    }
}

impl<T: ConfigSection> SectionSlot for Vec<At<T>> {
    fn name(&self) -> &'static str {
        T::name()
    }

    fn read(&mut self, node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) {
        let Some(array) = node.get_ref().as_array() else {
            let message = format!("`{}` is a list of blocks: write {}", T::name(), T::HEADER);
            return reader.bad_value(node, message);
        };
        for member in array.iter() {
            let Some(table) = member.get_ref().as_table() else {
                reader.bad_value(member, format!("expected a {} block", T::HEADER));
                continue;
            };
            let place = Some(reader.place(member.span()));
            let Some(value) = reader.section(table, member.span()) else { continue };
            // The first written block replaces the default ones. There may be very many blocks, so only the
            // last one is checked.
            if self.last().is_some_and(|block| block.place.is_none()) {
                self.clear();
            }
            self.push(At { value, place });
        }
    }

    fn describe(&self) -> SectionDoc {
        describe::<T>(!self.is_empty())
    }
}

impl<T: ConfigSection> SectionSlot for BTreeMap<String, At<T>> {
    fn name(&self) -> &'static str {
        T::name()
    }

    fn read(&mut self, node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) {
        let name = T::name();
        let Some(table) = node.get_ref().as_table() else {
            return reader.bad_value(node, format!("a {name} needs a name: write {}", T::HEADER));
        };
        for (key, node) in table {
            let Some(section) = read_one(None, node, reader) else { continue };
            let word = key.get_ref().as_ref();
            match self.get(word) {
                Some(first) => {
                    let message = format!("{name} `{word}` is defined twice");
                    let fault = Diagnostic::error(reader.place(key.span()), message);
                    reader.faults.push(fault.also(first.place.as_ref(), "first here"));
                }
                None => drop(self.insert(word.to_owned(), section)),
            }
        }
    }

    fn describe(&self) -> SectionDoc {
        describe::<T>(!self.is_empty())
    }
}

/// Reads a section that may occur once in all texts together; `first` is the earlier occurrence. A section
/// that has only blocks has no place: these may be in several texts.
fn read_one<T: ConfigSection>(
    first: Option<&At<T>>,
    node: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
) -> Option<At<T>> {
    let place = reader.place(node.span());
    let Some(table): Option<&DeTable<'_>> = node.get_ref().as_table() else {
        reader.bad_value(node, format!("`{}` is a section: write {}", T::name(), T::HEADER));
        return None;
    };
    let is_block = |key: &Spanned<DeString<'_>>| reader.blocks.contains(&key.get_ref().as_ref());
    let only_blocks = !table.is_empty() && table.keys().all(is_block);
    let value = reader.section(table, node.span());
    if only_blocks {
        return value.filter(|_| first.is_none()).map(At::unwritten);
    }
    if let Some(first) = first {
        let fault = Diagnostic::error(place, format!("{} is in more than one file", T::HEADER));
        reader.faults.push(fault.also(first.place.as_ref(), "first here"));
        return None;
    }
    value.map(|value| At { value, place: Some(place) })
}
