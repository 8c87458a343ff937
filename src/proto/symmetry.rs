//! What a machine knows, cut by node.
//!
//! Nodes are alike: two states that differ only in which node is called 0 have the same future. A checker that wants to
//! count them once needs a machine's knowledge in two parts, what concerns one node and what concerns none. Both parts
//! together are the whole state except the owner value, which whoever renames clients renames as well.

use core::hash::Hasher;

use super::tally::NodeId;

/// A machine whose knowledge can be cut by node.
pub trait ByNode {
    /// Feeds everything that concerns no node in particular, without the owner value.
    fn hash_shared<H: Hasher>(&self, state: &mut H);
    /// Feeds everything that concerns this node.
    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H);
}
