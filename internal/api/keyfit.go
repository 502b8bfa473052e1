package api

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/syncd-io/syncd"
)

// fitKey makes a key of the texts of its values, each in the form in which Postgres prints its column's type, so that TRUE
// finds t and 007 finds 7. A text that can be no value of the type is an error that names the column. Types that are
// printed in more forms than one value has (numeric keeps its zeros, times, texts) are looked for as they are written.
func fitKey(info *syncd.TableInfo, values []string) (syncd.Key, error) {
	if len(values) != len(info.Key) {
		return "", fmt.Errorf("the key has %d values, and that of %s is (%s): percent-encode each value, commas too (%%2C), and join them by commas",
			len(values), info.Table, strings.Join(info.Key, ", "))
	}
	fitted := values
	for i, column := range info.Key {
		n := slices.Index(info.Columns, column)
		if n < 0 || n >= len(info.Types) {
			continue
		}
		v, ok := fitValue(info.Types[n], values[i])
		if !ok {
			return "", fmt.Errorf("the key column %s of %s is of type %s, which %q is no value of", syncd.QuoteIdent(column), info.Table, info.Types[n], values[i])
		}
		if v != values[i] {
			if &fitted[0] == &values[0] {
				fitted = slices.Clone(values)
			}
			fitted[i] = v
		}
	}
	return syncd.MakeKey(fitted...), nil
}

// fitValue gives a value in the form in which Postgres prints it, and false where it can be none of the type.
func fitValue(typ, v string) (string, bool) {
	switch typ {
	case "smallint":
		return fitInteger(v, 16)
	case "integer":
		return fitInteger(v, 32)
	case "bigint":
		return fitInteger(v, 64)
	case "oid":
		n, err := strconv.ParseUint(v, 10, 32)
		return strconv.FormatUint(n, 10), err == nil
	case "boolean":
		return fitBool(v)
	case "uuid":
		return fitUUID(v)
	case "real", "double precision":
		return v, numberText.MatchString(v) || endless.MatchString(v)
	}
	if typ == "numeric" || strings.HasPrefix(typ, "numeric(") {
		return v, numberText.MatchString(v) || endless.MatchString(v)
	}
	return v, true
}

var (
	numberText = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$`)
	endless    = regexp.MustCompile(`^(NaN|-?Infinity)$`)
	uuidText   = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

func fitInteger(v string, bits int) (string, bool) {
	n, err := strconv.ParseInt(v, 10, bits)
	return strconv.FormatInt(n, 10), err == nil
}

func fitBool(v string) (string, bool) {
	switch strings.ToLower(v) {
	case "t", "true":
		return "t", true
	case "f", "false":
		return "f", true
	}
	return v, false
}

func fitUUID(v string) (string, bool) {
	plain := strings.ToLower(v)
	if strings.HasPrefix(plain, "{") && strings.HasSuffix(plain, "}") {
		plain = plain[1 : len(plain)-1]
	}
	hex := strings.ReplaceAll(plain, "-", "")
	if !uuidText.MatchString(hex) {
		return v, false
	}
	return hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:], true
}
