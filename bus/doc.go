// Package bus carries changes over NATS JetStream and lists over NATS request/reply: it holds the wire form, the
// publisher, the subscription, and both ends of the list service.
//
// It relies on one stream per sync (SYNCD_<NAME>) with dense sequence numbers, on the stream's leader answering reads,
// and on the server checking the expected last sequence of each publish. It does not rely on message ids, on acks being
// durable, on direct gets, or on a sequence number meaning the same message twice.
//
// What happens when a step fails:
//   - A publish whose outcome is unknown (a lost ack, a reconnect, a leader change) stops the Publisher from sending. It
//     reads back from the leader which of its messages are stored, and sends the rest again in order. A message of
//     another source in their place ends it with syncd.ErrFenced.
//   - A Subscription whose consumer or connection went away makes a new consumer, once the last message that it handed
//     out is proved to be still the same; else it ends with syncd.ErrTooOld and the cache relists.
//   - A malformed message is an error that names sequence, line and offset. Nothing is skipped.
//   - A reply of the list service with a missing, doubled or reordered part is an error, never a shorter list.
//
// It will not make a stream that is missing unless it is told to, and it does not judge what it carries: counts, order
// and versions are the feed's and the gate's business.
package bus
