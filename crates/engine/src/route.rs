//! Where a query goes that may be asked: to data in memory, to a source beyond it, or to what the server says of itself.

use wire::Class;

use crate::gate::{self, Stopped};
use crate::request::{Question, Request};
use crate::source::{Operation, Sources};

/// Where a query goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// To data in memory that hold its name: the number of its aim in the batch.
    Memory(u8, Question),
    /// To the source that does this.
    Source(Operation, Question),
    /// To the server's own names.
    Chaos(Question),
    /// Nowhere.
    Stopped(Stopped),
}

impl Route {
    /// The way as far as the query alone shows it: a question that memory may answer is on its way to the source that
    /// is asked if memory does not.
    #[inline]
    pub(crate) fn of(request: &Request, sources: &Sources) -> Self {
        match gate::admit(request, sources) {
            Ok((Operation::Query, question)) if question.qclass == Class::CH => Route::Chaos(question),
            Ok((operation, question)) => Route::Source(operation, question),
            Err(stopped) => Route::Stopped(stopped),
        }
    }

    /// The question, if memory may answer it.
    #[inline]
    pub(crate) fn question(&self) -> Option<Question> {
        match self {
            Route::Source(Operation::Query, question) => Some(*question),
            _ => None,
        }
    }
}
