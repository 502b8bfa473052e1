package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// csvData is a COPY of CSV with its data in the script.
var csvData = regexp.MustCompile(`(?ms)^COPY ([^\n;]+) FROM STDIN (WITH \(FORMAT csv[^\n;]*\));\n(.*?)^\\\.\n`)

// csvFromFiles has a script read its CSV from files in dir: before 18 psql sends the line \. that ends data in a script on to
// the server, which from 18 on takes it for a row.
func csvFromFiles(script, dir string) (string, error) {
	var failed error
	n := 0
	script = csvData.ReplaceAllStringFunc(script, func(block string) string {
		m := csvData.FindStringSubmatch(block)
		n++
		path := filepath.Join(dir, fmt.Sprintf("%d.csv", n))
		if err := os.WriteFile(path, []byte(m[3]), 0o600); err != nil {
			failed = err
		}
		return fmt.Sprintf("\\copy %s FROM '%s' %s\n", m[1], strings.ReplaceAll(path, "'", "''"), m[2])
	})
	return script, failed
}

func TestCSVIsReadFromFiles(t *testing.T) {
	t.Parallel()
	const csv, text = "COPY t (a, b) FROM STDIN WITH (FORMAT csv, NULL '');\n1,\"two\nlines\"\n\\.\n", "COPY t FROM STDIN;\n1\ta\\.\n\\.\n"
	dir := t.TempDir()
	got, err := csvFromFiles("SELECT 1;\n"+text+csv+text+csv, dir)
	if err != nil {
		t.Fatal(err)
	}
	copied := "\\copy t (a, b) FROM '" + dir + "/%d.csv' WITH (FORMAT csv, NULL '')\n"
	if want := "SELECT 1;\n" + text + fmt.Sprintf(copied, 1) + text + fmt.Sprintf(copied, 2); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	data, err := os.ReadFile(filepath.Join(dir, "2.csv"))
	if err != nil || string(data) != "1,\"two\nlines\"\n" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}
