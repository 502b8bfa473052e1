// Package checkpoint keeps a cache in a file between two runs of its process, with the position in the stream it belongs
// to, so that a restarted process serves at once what it had and goes on from there.
//
// The file is only ever replaced whole: it is written beside, flushed to the disk and renamed. A crash at any moment, a full
// disk or a missing right leaves the file before or the new one. It carries checksums and its length, the name of the sync
// it belongs to and the format's number; File.Load tells a file that is damaged, cut short, another sync's or a newer
// program's from a good one, puts it aside under another name and says why, and the caller lists anew: a checkpoint saves
// time, it is never what the truth depends on.
//
// What is in the file is the business of who writes and reads it. Two processes can't share a directory: Open locks it.
package checkpoint
