//! Keys that most sections do not set, for kinds of sections that may be very many, such as a hundred
//! thousand zones.

use std::ops::Deref;

use super::read::{Fields, Reader};
use super::{KeyDoc, KeyValue, Keys};

/// A group of keys that all have defaults.
pub trait Unset: 'static {
    /// Returns their defaults.
    fn unset() -> &'static Self;
}

/// Keys that take no memory while none of them is set, and are accessed like any others.
#[derive(Debug, Clone, PartialEq)]
pub struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Rare(None)
    }
}

impl<T: Unset + PartialEq> From<T> for Rare<T> {
    fn from(keys: T) -> Self {
        Rare((keys != *T::unset()).then(|| Box::new(keys)))
    }
}

impl<T: Unset> Deref for Rare<T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.0 {
            Some(keys) => keys,
            None => T::unset(),
        }
    }
}

impl<T: Keys + Unset + Clone + PartialEq> Keys for Rare<T> {
    fn read(fields: &mut Fields<'_, '_>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(fields, reader).map(Rare::from)
    }

    fn describe() -> Vec<KeyDoc> {
        T::describe()
    }

    fn values(&self) -> Vec<KeyValue> {
        T::values(self)
    }

    fn take_live(&mut self, new: Self) {
        let mut keys = T::clone(self);
        keys.take_live(T::clone(&new));
        *self = keys.into();
    }
}
