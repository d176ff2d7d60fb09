//! Whether the database understands every statement of a relay: a column of a type that cannot be written is found before
//! anything is sent, and not by the first settle.

use std::error::Error as _;
use std::sync::Arc;

use postroom_core::{StoreError, StoreErrorKind};

use super::{AdoptedSource, Shared};
use crate::executor::{Dialect, Statement};
use crate::sql::further::Entries;

impl AdoptedSource {
    /// Has every statement planned, none run. SQLite has nothing to say: its columns hold anything.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let inner = &self.0.inner;
        if inner.executor.dialect() == Dialect::Sqlite {
            return Ok(());
        }
        let statements = self
            .0
            .texts()
            .into_iter()
            .map(|(text, values)| Statement { text: format!("explain {text}").into(), values: vec![None; values] });
        let Err(error) = inner.executor.look("open", statements.collect()).await else { return Ok(()) };
        if !matches!(error.kind, StoreErrorKind::Schema | StoreErrorKind::Invalid | StoreErrorKind::Other) {
            return Err(error);
        }
        let said = std::iter::successors(error.source(), |&cause| cause.source()).last();
        let said = said.map_or_else(|| error.to_string(), ToString::to_string);
        let message =
            format!("table {} does not fit the mapping of store {:?}: {said}", inner.mapping_name, inner.name);
        Err(StoreError::new(StoreErrorKind::Invalid, "open", message)
            .hint("correct what the mapping says of that column; nothing was sent")
            .caused_by(error))
    }
}

impl Shared {
    /// Every statement, with how many values it takes.
    fn texts(&self) -> Vec<(&Arc<str>, usize)> {
        let (takes, settle) = (&self.takes, &self.inner.texts.settle);
        let mut all = vec![
            (&takes.first, 4),
            (&takes.behind, 7),
            (&takes.fresh, 4),
            (&takes.again, 4),
            (&takes.waiting, 3),
            (&takes.any, 4),
        ];
        all.extend(settle.fence.iter().map(|text| (text, 3)));
        if let Some(claims) = &takes.claims {
            all.extend([(&claims.claim, 5), (&claims.refresh, 3), (&claims.settled_back, 6)]);
        }
        let settles = [&settle.parked, &settle.clear, &settle.attempts];
        let lists = [&settle.done, &settle.dead, &settle.count, &self.inner.texts.dead_letters];
        let settles = settles.into_iter().chain(&settle.retry).chain(lists.into_iter().flatten());
        let entering = self.inner.texts.entering.iter();
        let entering = entering.flat_map(|texts| texts.lock.iter().chain([&texts.enter, &texts.leave]));
        if let Some(consumer) = &self.consumer {
            all.extend([(&consumer.texts.processed, 1), (&consumer.texts.record, 6)]);
        }
        all.extend(settles.chain(entering).map(|text| (text, 6)));
        all.extend(self.entries.iter().flat_map(Entries::texts));
        all
    }
}
