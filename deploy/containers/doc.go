// Package containers runs syncd against Postgres and NATS in containers, as others run them. It needs a Docker engine, so its
// test is built with a tag alone:
//
//	go test -tags containers ./containers
//
// SYNCD_POSTGRES_IMAGE and SYNCD_NATS_IMAGE choose other images.
package containers
