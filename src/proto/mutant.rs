//! Small wrong edits of the protocol, each of which the model must catch.
//!
//! They exist only in builds with the feature `mutants`: tests of the model, and `explore` where it is asked for. Without it every
//! `mutated!(..)` in this room is the constant `false`.

/// Whether this wrong edit is in force.
#[cfg(feature = "mutants")]
macro_rules! mutated {
    () => {
        $crate::proto::mutant::is_any_active()
    };
    ($name:ident) => {
        $crate::proto::mutant::is_active($crate::proto::mutant::Mutant::$name)
    };
}

/// Whether this wrong edit is in force: never.
#[cfg(not(feature = "mutants"))]
macro_rules! mutated {
    () => {
        $crate::proto::mutant::never()
    };
    ($name:ident) => {
        $crate::proto::mutant::never()
    };
}

/// The constant `false`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn never() -> bool {
    false
}

pub(crate) use mutated;

#[cfg(feature = "mutants")]
pub use switch::{Mutant, activate, is_active, is_any_active};

#[cfg(feature = "mutants")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    /// The wrong edit in force; 0 for none. One for the whole process: checkers have many threads.
    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    macro_rules! mutants {
        ($($(#[doc = $doc:literal])+ $name:ident $text:literal;)+) => {
            /// A wrong edit.
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            #[repr(u8)]
            pub enum Mutant {
                /// None: value 0.
                None,
                $($(#[doc = $doc])+ $name,)+
            }

            impl Mutant {
                /// All wrong edits.
                pub const ALL: &[Self] = &[$(Self::$name,)+];

                /// Its name in scenarios.
                pub const fn name(self) -> &'static str {
                    match self {
                        Self::None => "none",
                        $(Self::$name => $text,)+
                    }
                }
            }
        };
    }

    mutants! {
        /// A win takes one equal answer too few, before any confirm.
        FastPathMinority "fast-path-minority";
        /// A win takes one equal answer too few, after a confirm.
        ConfirmMinority "confirm-minority";
        /// Numbers that differ by one count as equal.
        NumbersMayDiffer "numbers-may-differ";
        /// The token is the largest number of a quorum of grants; nothing is written back.
        NoWriteBack "no-write-back";
        /// Stands of different epochs count as equal.
        EpochIgnored "epoch-ignored";
        /// A number above the one asked for counts as a confirmation of it.
        LargerConfirms "larger-confirms";
        /// Whether any validity is left is not looked at.
        NoElapsedCheck "no-elapsed-check";
        /// Validity is counted from the end of the acquisition.
        ValidityFromEnd "validity-from-end";
        /// No drift is taken off.
        NoDrift "no-drift";
        /// No answer counts as a grant.
        UnknownIsGrant "unknown-is-grant";
        /// A majority of the answers is enough.
        MajorityOfAnswers "majority-of-answers";
        /// A failed attempt releases only where it knows of a key.
        ReleaseOnlySigned "release-only-signed";
        /// An extension holds with one node too few.
        ExtendMinority "extend-minority";
        /// Validity after an extension is counted from the answer.
        ExtendFromAnswer "extend-from-answer";
        /// A release deletes whatever key is there.
        PlainDelete "plain-delete";
        /// A grant overwrites a key that is there.
        SetOverwrites "set-overwrites";
        /// An extension creates a key that is not there.
        ExtendCreates "extend-creates";
        /// An extension does not look at who signed the key.
        ExtendAnyKey "extend-any-key";
        /// A grant does not raise the number.
        GrantDoesNotRaise "grant-does-not-raise";
        /// A hint is taken as the number, also if it is smaller.
        HintAssigned "hint-assigned";
        /// A hint equal to the number counts as a raise.
        HintNotAbove "hint-not-above";
        /// A confirm does not look at who signed the key.
        ConfirmAnyKey "confirm-any-key";
        /// A confirm takes an absent key for its own.
        ConfirmAbsentKey "confirm-absent-key";
        /// A confirm lowers the number.
        ConfirmLowers "confirm-lowers";
        /// A confirm answers as if it had raised the number.
        ConfirmDoesNotRaise "confirm-does-not-raise";
        /// The number ends with the key.
        NumberEndsWithKey "number-ends-with-key";
        /// A number below the one asked for counts as a confirmation of it.
        SmallerConfirms "smaller-confirms";
        /// Grants that differ are never brought together. Harmless: an attempt only fails more often.
        NeverConfirms "never-confirms";
        /// A re-admission is content with the numbers of one node too few.
        ReadmitMinority "readmit-minority";
        /// A re-admission reads the numbers of the others but brings nobody into a new epoch.
        ReadmitKeepsEpoch "readmit-keeps-epoch";
        /// A re-admission claims nothing: it admits whichever node is empty after the reading.
        AdmitUnclaimed "admit-unclaimed";
        /// An empty node votes.
        EmptyVotes "empty-votes";
        /// A look at the nodes that another client's first start has overtaken is believed.
        LookOnce "look-once";
    }

    /// Puts a wrong edit in force, in the whole process; [`Mutant::None`] ends it.
    pub fn activate(mutant: Mutant) {
        ACTIVE.store(mutant as u8, Ordering::SeqCst);
    }

    /// Whether any wrong edit is in force.
    pub fn is_any_active() -> bool {
        ACTIVE.load(Ordering::Relaxed) != Mutant::None as u8
    }

    /// Whether this wrong edit is in force.
    pub fn is_active(mutant: Mutant) -> bool {
        ACTIVE.load(Ordering::Relaxed) == mutant as u8
    }
}
