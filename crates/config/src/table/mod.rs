//! What features declare their keys with. `keys!` makes of one declaration per key the field, its reader, its
//! default, its documentation and what a reload does with a change, so that none of them can disagree;
//! `section!` makes one section of the file out of the keys of several features.
//!
//! ```text
//! keys! {
//!     /// What is logged, and where.
//!     pub struct Log in "[log]" {
//!         /// Least severe events that are logged.
//!         live "level" level: LogLevel = LogLevel::Info, example "warn";
//!     }
//! }
//! ```
//!
//! The words before a key are its documentation. `live` or `restart` is its [`Effect`]. A key without `=`
//! must be given. The example is TOML; readers copy it, so it must do no harm. Without `in "[log]"` the keys
//! belong to a section that `section!` puts together. Keys that several sections share follow in
//! `with { … }`, as a field of their own. A header such as `[[log.sink]]` makes blocks inside the section
//! `[log]`.

pub mod pending;
pub mod rare;
pub mod read;
pub mod slot;
pub mod value;

use read::{Fields, Reader};

/// When a change of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// At a reload.
    Live,
    /// At the next start.
    Restart,
}

/// What the reference page says about one key.
#[derive(Debug, Clone)]
pub struct KeyDoc {
    /// Its name.
    pub name: &'static str,
    /// The kind of value.
    pub kind: String,
    /// The default as TOML; none if the key must be given or stays unset.
    pub default: Option<String>,
    /// Whether the key must be given.
    pub required: bool,
    /// When a change takes effect.
    pub effect: Effect,
    /// A value to copy, as TOML.
    pub example: &'static str,
    /// The words beside its declaration.
    pub doc: &'static str,
}

/// What the reference page says about one section.
#[derive(Debug, Clone)]
pub struct SectionDoc {
    /// The header, such as `[server]` or `[[zone]]`.
    pub header: &'static str,
    /// The words beside its declaration.
    pub doc: &'static str,
    /// Whether its feature is on without the section.
    pub on: bool,
    /// Its keys in the order they were declared.
    pub keys: Vec<KeyDoc>,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// Its name.
    pub key: &'static str,
    /// When a change takes effect.
    pub effect: Effect,
    /// The value as TOML; none where the key is not set.
    pub value: Option<String>,
}

/// Keys that belong together, declared by `keys!`.
pub trait Keys: Sized {
    /// Takes the keys out of a section, reporting every fault; none if one that must be given is missing.
    fn read(fields: &mut Fields<'_, '_>, reader: &mut Reader<'_>) -> Option<Self>;

    /// What the reference page says about them, in the order they were declared.
    fn describe() -> Vec<KeyDoc>;

    /// Every key with its value, in the order they were declared.
    fn values(&self) -> Vec<KeyValue>;

    /// Takes over the values that can change while the server runs.
    fn take_live(&mut self, new: Self);
}

/// Keys that are a whole section of the file.
pub trait ConfigSection: Keys {
    /// The header, such as `[server]` or `[[zone]]`.
    const HEADER: &'static str;
    /// The words beside its declaration.
    const DOC: &'static str;

    /// The name at the top of the file: the header without its brackets, and without the placeholder `.X`.
    /// Blocks inside a section have its name and a dot in front.
    fn name() -> &'static str {
        let name = Self::HEADER.trim_matches(['[', ']']);
        name.strip_suffix(".X").unwrap_or(name)
    }
}

/// Declares the keys of one feature.
macro_rules! keys {
    (@effect live) => {
        $crate::table::Effect::Live
    };
    (@effect restart) => {
        $crate::table::Effect::Restart
    };
    (@default $default:expr) => {
        Some($default)
    };
    (@default) => {
        None
    };
    // Keys that all have defaults can be left out together.
    (@unset $name:ident [ $($part:ident)* ] { $($field:ident = $default:expr;)* }) => {
        impl Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $crate::table::read::At::unwritten($default), )*
                    $( $part: Default::default(), )*
                }
            }
        }

        impl $crate::table::rare::Unset for $name {
            fn unset() -> &'static Self {
                static UNSET: std::sync::LazyLock<$name> = std::sync::LazyLock::new(Default::default);
                &UNSET
            }
        }
    };
    (@unset $name:ident [ $($part:ident)* ] { $($other:tt)* }) => {};
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident in $header:literal { $($keys:tt)* } $($shared:tt)*
    ) => {
        keys! { $(#[doc = $doc])* $vis struct $name { $($keys)* } $($shared)* }

        impl $crate::table::ConfigSection for $name {
            const HEADER: &'static str = $header;
            const DOC: &'static str = concat!($($doc, "\n",)*);
        }
    };
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $key_doc:literal])*
                $effect:ident $key:literal $field:ident: $ty:ty $(= $default:expr)?, example $example:tt;
            )*
        }
        $( with {
            $( $(#[doc = $part_doc:literal])* $part:ident: $part_ty:ty; )*
        } )?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $name {
            $( $(#[doc = $key_doc])* $vis $field: $crate::table::read::At<$ty>, )*
            $( $( $(#[doc = $part_doc])* $vis $part: $part_ty, )* )?
        }

        keys! { @unset $name [ $( $($part)* )? ] { $( $field $(= $default)?; )* } }

        impl $crate::table::Keys for $name {
            fn read(
                fields: &mut $crate::table::read::Fields<'_, '_>,
                reader: &mut $crate::table::read::Reader<'_>,
            ) -> Option<Self> {
                $( let $field = fields.take::<$ty>($key, keys!(@default $($default)?), reader); )*
                $( $( let $part = <$part_ty as $crate::table::Keys>::read(fields, reader); )* )?
                Some(Self { $( $field: $field?, )* $( $( $part: $part?, )* )? })
            }

            fn describe() -> Vec<$crate::table::KeyDoc> {
                use $crate::table::value::Value;
                let own = vec![ $( {
                    let default: Option<$ty> = keys!(@default $($default)?);
                    $crate::table::KeyDoc {
                        name: $key,
                        kind: <$ty as Value>::kind(),
                        default: default.as_ref().and_then(Value::render),
                        required: default.is_none(),
                        effect: keys!(@effect $effect),
                        example: stringify!($example),
                        doc: concat!($($key_doc, "\n",)*),
                    }
                }, )* ];
                [own $( $( , <$part_ty as $crate::table::Keys>::describe() )* )? ].concat()
            }

            fn values(&self) -> Vec<$crate::table::KeyValue> {
                use $crate::table::{KeyValue, value::Value};
                let own = vec![ $( KeyValue {
                    key: $key,
                    effect: keys!(@effect $effect),
                    value: self.$field.value.render(),
                }, )* ];
                [own $( $( , $crate::table::Keys::values(&self.$part) )* )? ].concat()
            }

            fn take_live(&mut self, new: Self) {
                $(
                    if keys!(@effect $effect) == $crate::table::Effect::Live {
                        self.$field = new.$field;
                    }
                )*
                $( $( $crate::table::Keys::take_live(&mut self.$part, new.$part); )* )?
            }
        }
    };
}
pub(super) use keys;

/// Puts the keys of several features into one section.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident in $header:literal {
            $( $(#[doc = $part_doc:literal])* $field:ident: $part:ty; )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        $vis struct $name {
            $( $(#[doc = $part_doc])* $vis $field: $part, )*
        }

        impl $crate::table::Keys for $name {
            fn read(
                fields: &mut $crate::table::read::Fields<'_, '_>,
                reader: &mut $crate::table::read::Reader<'_>,
            ) -> Option<Self> {
                $( let $field = <$part>::read(fields, reader); )*
                Some(Self { $( $field: $field?, )* })
            }

            fn describe() -> Vec<$crate::table::KeyDoc> {
                [ $( <$part>::describe(), )* ].concat()
            }

            fn values(&self) -> Vec<$crate::table::KeyValue> {
                [ $( self.$field.values(), )* ].concat()
            }

            fn take_live(&mut self, new: Self) {
                $( self.$field.take_live(new.$field); )*
            }
        }

        impl $crate::table::ConfigSection for $name {
            const HEADER: &'static str = $header;
            const DOC: &'static str = concat!($($doc, "\n",)*);
        }
    };
}
pub(super) use section;
