//go:build ignore

// Report reads what `go test -json` prints and shows what a person wants of it: a line for each package, the whole output
// of tests that failed, and the counts at the end. It fails where a test failed or was skipped, or where none ran.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// slowSeconds is from how long on a test is named among the slow ones.
const slowSeconds = 10

type key struct{ pkg, test string }

func main() {
	var passed, failed, skipped int
	var slow []event
	output := map[key]*strings.Builder{}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			fmt.Println(in.Text()) // the go command's own words
			failed++
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			if k.pkg == "" {
				k.pkg = e.ImportPath
			}
			if output[k] == nil {
				output[k] = new(strings.Builder)
			}
			output[k].WriteString(e.Output)
			continue
		case "build-fail":
			fmt.Print(text(output[key{pkg: e.ImportPath}]))
			failed++
		case "pass", "fail", "skip":
			if e.Test == "" {
				finish(e, text(output[k]), &failed)
				break
			}
			if e.Elapsed >= slowSeconds {
				slow = append(slow, e)
			}
			switch e.Action {
			case "pass":
				passed++
			case "skip":
				skipped++
				fmt.Printf("SKIP %s %s\n%s", e.Package, e.Test, text(output[k]))
			case "fail":
				failed++
				fmt.Printf("FAIL %s %s\n%s", e.Package, e.Test, text(output[k]))
			}
		default:
			continue
		}
		delete(output, k)
	}
	if err := in.Err(); err != nil {
		fmt.Println("read the tests' output:", err)
		failed++
	}
	slices.SortFunc(slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range slow[:min(len(slow), 12)] {
		fmt.Printf("slow %5.1fs %s %s\n", e.Elapsed, e.Package, e.Test)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if passed == 0 || failed+skipped > 0 {
		os.Exit(1)
	}
}

// finish shows the end of a package. What fails outside of its tests (TestMain, a panic, a timeout) counts as a failure.
func finish(e event, out string, failed *int) {
	switch e.Action {
	case "pass":
		fmt.Printf("ok   %s %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		*failed++
		fmt.Printf("FAIL %s %.1fs\n%s", e.Package, e.Elapsed, out)
	}
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}
