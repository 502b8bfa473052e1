package daemon

import (
	"io"
	"log/slog"

	"github.com/syncd-io/syncd/internal/config"
)

// NewLogger makes the process's logger. Its level can be changed while it is used. Warnings and
// errors that repeat are rate-limited.
func NewLogger(c config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	setLevel(level, c)
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(newLimited(slog.NewJSONHandler(w, o))), level
	}
	return slog.New(newLimited(slog.NewTextHandler(w, o))), level
}

// setLevel sets a level that the configuration's checks have let through.
func setLevel(level *slog.LevelVar, c config.Log) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.Level)); err == nil {
		level.Set(l)
	}
}
