package syncd

import "math"

const dayLength = 24 * 60 * 60 * 1_000_000 // in microseconds

// parseMoment reads a date, as days, or a timestamp, as microseconds, since 2000-01-01, in the ISO forms that Postgres and
// its JSON print; infinities are the ends of int64. A timestamp with time zone that names none is one of UTC.
func parseMoment(k kind, s []byte) (int64, bool) {
	switch string(s) {
	case "infinity":
		return math.MaxInt64, true
	case "-infinity":
		return math.MinInt64, true
	}
	if n := len(s) - len(" BC"); n > 0 && string(s[n:]) == " BC" {
		return parseDated(k, s[:n], true)
	}
	return parseDated(k, s, false)
}

func parseDated(k kind, s []byte, bc bool) (int64, bool) {
	days, s, ok := parseDate(s, bc)
	if !ok || k == dateKind {
		return days, ok && len(s) == 0
	}
	if days >= 106_751_983 || days < -2_451_545 { // where Postgres's timestamps end
		return 0, false
	}
	at := days * dayLength
	if len(s) > 0 {
		if s[0] != 'T' && s[0] != ' ' && s[0] != 't' {
			return 0, false
		}
		var clock int64
		if clock, s, ok = parseClock(s[1:]); !ok {
			return 0, false
		}
		at += clock
	}
	if k == timestamptzKind && len(s) > 0 {
		var offset int64
		if offset, s, ok = parseOffset(s); !ok {
			return 0, false
		}
		at -= offset
	}
	return at, len(s) == 0
}

// parseDate reads YYYY-MM-DD, with more digits of the year where there are, and gives the days since 2000-01-01.
func parseDate(s []byte, bc bool) (days int64, rest []byte, ok bool) {
	n := countDigits(s)
	if n < 4 || n > 7 {
		return 0, s, false
	}
	var year int64
	for _, c := range s[:n] {
		year = year*10 + int64(c-'0')
	}
	month, s, ok1 := twoDigits(s[n:], '-')
	dom, s, ok2 := twoDigits(s, '-')
	if !ok1 || !ok2 || year == 0 || month == 0 || month > 12 {
		return 0, s, false
	}
	if bc {
		year = 1 - year
	}
	if dom == 0 || dom > daysIn(year, month) {
		return 0, s, false
	}
	return daysSince2000(year, month, dom), s, true
}

func daysIn(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSince2000 counts days of the proleptic Gregorian calendar; the year before 1 is 0. Years begin in March here, so that
// the leap day is the last of its year.
func daysSince2000(year, month, dom int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400
	if year < 0 {
		era = (year - 399) / 400
	}
	inEra := year - era*400
	inYear := (153*(month-3)+2)/5 + dom - 1
	return era*146097 + inEra*365 + inEra/4 - inEra/100 + inYear - 730425
}

// parseClock reads HH:MM, perhaps seconds, and perhaps a fraction of them of at most six digits, and gives microseconds.
func parseClock(s []byte) (at int64, rest []byte, ok bool) {
	if len(s) < 2 || countDigits(s[:2]) != 2 {
		return 0, s, false
	}
	hour := int64(s[0]-'0')*10 + int64(s[1]-'0')
	minute, s, ok := twoDigits(s[2:], ':')
	if !ok || hour > 23 || minute > 59 {
		return 0, s, false
	}
	at = (hour*60 + minute) * 60 * 1_000_000
	second, rest, ok := twoDigits(s, ':')
	if !ok {
		return at, s, true
	}
	if second > 59 {
		return 0, s, false
	}
	at += second * 1_000_000
	if len(rest) == 0 || rest[0] != '.' {
		return at, rest, true
	}
	n := countDigits(rest[1:])
	if n == 0 || n > 6 {
		return 0, rest, false
	}
	unit := int64(1_000_000)
	for _, c := range rest[1 : 1+n] {
		unit /= 10
		at += int64(c-'0') * unit
	}
	return at, rest[1+n:], true
}

// parseOffset reads Z, or a sign, hours and perhaps minutes and seconds, with or without colons.
func parseOffset(s []byte) (offset int64, rest []byte, ok bool) {
	if s[0] == 'Z' || s[0] == 'z' {
		return 0, s[1:], true
	}
	if s[0] != '+' && s[0] != '-' {
		return 0, s, false
	}
	sign := int64(1)
	if s[0] == '-' {
		sign = -1
	}
	s = s[1:]
	unit := int64(3600 * 1_000_000)
	for i := range 3 {
		part := s
		if i > 0 && len(s) > 0 && s[0] == ':' {
			part = s[1:]
		}
		if len(part) < 2 || countDigits(part[:2]) != 2 {
			if i == 0 {
				return 0, s, false
			}
			break
		}
		n := int64(part[0]-'0')*10 + int64(part[1]-'0')
		if i == 0 && n > 15 || n > 59 {
			return 0, s, false
		}
		offset += sign * n * unit
		unit /= 60
		s = part[2:]
	}
	return offset, s, true
}

// twoDigits reads the byte before and then two digits.
func twoDigits(s []byte, before byte) (n int64, rest []byte, ok bool) {
	if len(s) < 3 || s[0] != before || countDigits(s[1:3]) != 2 {
		return 0, s, false
	}
	return int64(s[1]-'0')*10 + int64(s[2]-'0'), s[3:], true
}
