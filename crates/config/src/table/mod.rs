//! Macros that declare keys. From one declaration per key, `keys!` generates the field, its reader, its
//! default, its documentation and the effect of a reload, so that these cannot disagree; `section!` joins the
//! keys of several features into one section of the file.
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
//! The doc comment of a key is its documentation. `live` or `restart` is its [`Effect`]. A key without `=`
//! must be given. The example is TOML; readers copy it, so it must do no harm. Without `in "[log]"` the keys
//! belong to a section that `section!` joins. Keys that several sections share follow in `with { … }`, as a
//! field of their own. A header such as `[[log.sink]]` makes blocks inside the section `[log]`.

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

/// The reference page's entry for one key.
#[derive(Debug, Clone)]
pub struct KeyDoc {
    /// Its name.
    pub name: &'static str,
    /// The kind of value.
    pub kind: String,
    /// The default as TOML; `None` if the key must be given or is unset by default.
    pub default: Option<String>,
    /// Whether the key must be given.
    pub required: bool,
    /// When a change takes effect.
    pub effect: Effect,
    /// An example value, as TOML.
    pub example: &'static str,
    /// The doc comment of its declaration.
    pub doc: &'static str,
}

/// The reference page's entry for one section.
#[derive(Debug, Clone)]
pub struct SectionDoc {
    /// The header, such as `[server]` or `[[zone]]`.
    pub header: &'static str,
    /// The doc comment of its declaration.
    pub doc: &'static str,
    /// Whether its feature is on when the section is missing.
    pub on: bool,
    /// Its keys, in the order of declaration.
    pub keys: Vec<KeyDoc>,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// Its name.
    pub key: &'static str,
    /// When a change takes effect.
    pub effect: Effect,
    /// The value as TOML; `None` if the key is not set.
    pub value: Option<String>,
}

/// A group of keys, declared by `keys!`.
pub trait Keys: Sized {
    /// Reads the keys of a section and reports every fault; returns `None` if a required one is missing.
    fn read(fields: &mut Fields<'_, '_>, reader: &mut Reader<'_>) -> Option<Self>;

    /// Returns the entries of the reference page, in the order of declaration.
    fn describe() -> Vec<KeyDoc>;

    /// Returns every key with its value, in the order of declaration.
    fn values(&self) -> Vec<KeyValue>;

    /// Takes over the values that may change while the server runs.
    fn take_live(&mut self, new: Self);
}

/// Keys that form a whole section of the file.
pub trait ConfigSection: Keys {
    /// The header, such as `[server]` or `[[zone]]`.
    const HEADER: &'static str;
    /// The doc comment of its declaration.
    const DOC: &'static str;

    /// Returns the top-level name: the header without its brackets, and without the placeholder `.X`. The
    /// name of blocks inside a section begins with the section's name and a dot.
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
    // If all keys have defaults, the whole group has one.
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

/// Joins the keys of several features into one section.
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
