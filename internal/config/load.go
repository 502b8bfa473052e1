package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/syncd-io/syncd"
)

// envPrefix begins the environment variables that set keys: SYNCD_SOURCE_POSTGRES sets source.postgres.
const envPrefix = "SYNCD_"

// maxSecret bounds a file that holds a secret.
const maxSecret = 64 << 10

// Sources are what a Config is made of.
type Sources struct {
	// File is the path of syncd.yaml; empty: there is none.
	File string
	// Env looks up an environment variable, as os.LookupEnv does. nil: the environment is empty.
	Env func(string) (string, bool)
	// Flags set single keys; a later one beats an earlier one.
	Flags []Flag
}

// Flag sets one key.
type Flag struct {
	// Name is the flag as the user typed it, such as --postgres; messages name it.
	Name string
	// Key is the dotted key that it sets, such as source.postgres.
	Key string
	// Value is the value's text. ${…} has no meaning in it.
	Value string
}

// Load reads a configuration and checks it for what is to run. The error is Problems where the configuration is wrong,
// with every mistake in it; another error says that the file can't be read.
func Load(s Sources, r Role) (*Config, error) {
	var text []byte
	if s.File != "" {
		var err error
		if text, err = os.ReadFile(s.File); err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
	}
	return parseAll(s, text, r)
}

func parseAll(s Sources, text []byte, r Role) (*Config, error) {
	if s.Env == nil {
		s.Env = func(string) (string, bool) { return "", false }
	}
	c := Default()
	used := variables{}
	b := &binder{config: c, file: s.File, lookup: used.watch(s.Env), meant: map[string]bool{}}
	b.read(text)
	b.environment(s.Env)
	for _, f := range s.Flags {
		b.set(f.Key, f.Value, origin{layer: byFlag, name: f.Name})
	}
	b.secretFiles()
	c.Defaults()
	problems := b.problems
	if b.broken {
		return nil, problems.err()
	}
	for _, p := range c.check(r, s.File) {
		// A value that could not be read is not wrong a second time.
		if !b.meant[p.Key] && !b.problems.has(p.Key) {
			problems = append(problems, p)
		}
	}
	used.hide(problems)
	if err := problems.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// environment sets the keys that have a variable.
func (b *binder) environment(lookup func(string) (string, bool)) {
	for key := range leaves(reflect.ValueOf(b.config).Elem()) {
		name := Variable(key)
		if value, ok := lookup(name); ok {
			b.set(key, value, origin{layer: byEnvironment, name: name})
		}
	}
}

// Variable names the environment variable that sets a key.
func Variable(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Keys gives the dotted keys that flags and environment variables can set: all single values.
func Keys() []string {
	var keys []string
	for key := range leaves(reflect.ValueOf(Default()).Elem()) {
		keys = append(keys, key)
	}
	return keys
}

// set sets one key to a text.
func (b *binder) set(key, text string, o origin) {
	for k, v := range leaves(reflect.ValueOf(b.config).Elem()) {
		if k != key {
			continue
		}
		if err := setText(v, text); err != nil {
			b.problems = append(b.problems, Problem{Key: key, Message: err.Error(), origin: o})
			return
		}
		b.config.origins[key] = o
		return
	}
	say := "is no key of a single value"
	if near := syncd.Nearest(key, Keys()); near != "" {
		say += "; did you mean " + near + "?"
	}
	b.problems = append(b.problems, Problem{Key: key, Message: say, origin: o})
}

// secretFiles reads the secrets that are given by file.
func (b *binder) secretFiles() {
	b.secretFilesOf("", reflect.ValueOf(b.config).Elem())
	for i := range b.config.Sidecar.Sinks {
		b.sinkSecrets(fmt.Sprintf("sidecar.sinks[%d]", i), &b.config.Sidecar.Sinks[i])
	}
	b.sinkSecrets("sidecar.sink", &b.config.Sidecar.Sink)
}

func (b *binder) sinkSecrets(path string, s *Sink) {
	if s.Redis != nil {
		b.secretFilesOf(path+".redis", reflect.ValueOf(s.Redis).Elem())
	}
	if s.Postgres != nil {
		b.secretFilesOf(path+".postgres", reflect.ValueOf(s.Postgres).Elem())
	}
}

func (b *binder) secretFilesOf(path string, v reflect.Value) {
	for _, m := range members(v) {
		key := join(path, m.key)
		if m.group {
			b.secretFilesOf(key, m.value)
			continue
		}
		if secret, ok := m.value.Addr().Interface().(*Secret); ok {
			if file, ok := field(v, m.key+"_file"); ok {
				b.secretFile(key, secret, file)
			}
		}
	}
}

// secretFile reads one secret. What was set with more weight, the secret or its file, holds.
func (b *binder) secretFile(key string, secret *Secret, file reflect.Value) {
	path := file.String()
	if path == "" {
		return
	}
	at, direct := b.config.origins[key+"_file"], b.config.origins[key]
	if !secret.IsZero() {
		switch {
		case direct.layer > at.layer:
			file.SetString("")
			return
		case direct.layer == at.layer:
			b.problems = append(b.problems, Problem{Key: key + "_file", Message: "the value and its file are both given; keep one", origin: at})
			return
		}
	}
	text, err := readSecret(path)
	if err != nil {
		b.problems = append(b.problems, Problem{Key: key + "_file", Message: err.Error(), origin: at})
		return
	}
	*secret = NewSecret(text)
}

// readSecret reads a file's text without the line's end that editors put behind it. Errors don't repeat the path: who
// took the file's key for the secret's has a secret there.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the file: %w", cause(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read the file: %w", cause(err))
	}
	if len(b) > maxSecret {
		return "", fmt.Errorf("the file has more than %d bytes", maxSecret)
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", errors.New("the file is empty")
	}
	return text, nil
}

// cause is what the system said, without the path.
func cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Changes gives the dotted keys whose values differ between two configurations. A list is one key.
func Changes(a, b *Config) []string {
	return changes("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func changes(path string, a, b reflect.Value) []string {
	var keys []string
	after := members(b)
	for i, m := range members(a) {
		key := join(path, m.key)
		switch {
		case m.group:
			keys = append(keys, changes(key, m.value, after[i].value)...)
		case !reflect.DeepEqual(m.value.Interface(), after[i].value.Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}
