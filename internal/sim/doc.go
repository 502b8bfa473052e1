// Package sim rehearses the whole: the source's stages over the bytes of a replication stream, the wire form, a stream, and
// sidecars with their resync, in fake time, while everything fails that can. What stands in for Postgres and JetStream is in
// memory and contrary: commits are in the log before they are visible, acknowledged messages are lost, either side is killed
// at any step. A seed decides the history and each fault of it; nothing but its tests uses this package.
package sim
