// Package daemon runs syncd's processes: it makes the stages that a configuration asks for, starts them, and waits for
// them. run.go shows the whole on one page.
//
// A server that is away, Postgres or NATS, at the start or later, is waited for and said once; a process ends only when it
// is told to, or where a person has to act (a deleted stream, a protocol that is not understood, a port that is taken). The
// first stage to end ends the rest. Nothing that was acknowledged is lost when a process is killed at any point.
package daemon
