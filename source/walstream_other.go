//go:build !linux

package source

import "time"

func shortSleep(d time.Duration) { time.Sleep(d) }
