package source

// appendTime appends a date or a timestamp as JsonEncodeDateTime of Postgres's json.c prints it, from its text in DateStyle
// ISO: a T between date and time, and minutes in every offset. Infinities and the BC at the end stay as they are.
func (t *Type) appendTime(dst, text []byte) ([]byte, error) {
	if s := string(text); s == "infinity" || s == "-infinity" {
		dst = append(dst, '"')
		dst = append(dst, text...)
		return append(dst, '"'), nil
	}
	day, ok := scanDate(text)
	if !ok {
		return dst, t.malformed(day, "it is not a date")
	}
	dst = append(dst, '"')
	dst = append(dst, text[:day]...)
	end := day
	if t.Category != Date {
		if end, ok = scanClock(text, day); !ok {
			return dst, t.malformed(end, "it is not a time of day")
		}
		dst = append(dst, 'T')
		dst = append(dst, text[day+1:end]...)
	}
	if t.Category == TimestampTZ {
		zone := end
		if end, ok = scanOffset(text, zone); !ok {
			return dst, t.malformed(end, "it is not an offset from UTC")
		}
		dst = append(dst, text[zone:end]...)
		if end-zone == len("+00") {
			dst = append(dst, ":00"...)
		}
	}
	if rest := text[end:]; len(rest) > 0 && string(rest) != " BC" {
		return dst, t.malformed(end, "it goes on behind its end")
	}
	dst = append(dst, text[end:]...)
	return append(dst, '"'), nil
}

// scanDate reads a year of four digits or more, a month and a day, and gives where they end, or where the fault is.
func scanDate(s []byte) (end int, ok bool) {
	i := digits(s, 0)
	if i < 4 {
		return i, false
	}
	for range 2 {
		if i, ok = two(s, i, '-'); !ok {
			return i, false
		}
	}
	return i, true
}

// scanClock reads a space, hours, minutes, seconds and up to six digits of a fraction.
func scanClock(s []byte, i int) (end int, ok bool) {
	for _, before := range [...]byte{' ', ':', ':'} {
		if i, ok = two(s, i, before); !ok {
			return i, false
		}
	}
	if i == len(s) || s[i] != '.' {
		return i, true
	}
	end = digits(s, i+1)
	return end, end > i+1 && end <= i+7
}

// scanOffset reads a sign, hours and perhaps minutes and seconds.
func scanOffset(s []byte, i int) (end int, ok bool) {
	if i == len(s) || s[i] != '+' && s[i] != '-' {
		return i, false
	}
	if i, ok = two(s, i, s[i]); !ok {
		return i, false
	}
	for range 2 {
		if i == len(s) || s[i] != ':' {
			break
		}
		if i, ok = two(s, i, ':'); !ok {
			return i, false
		}
	}
	return i, true
}

// two reads the byte before and then two digits.
func two(s []byte, i int, before byte) (end int, ok bool) {
	if len(s)-i < 3 || s[i] != before || s[i+1]-'0' > 9 || s[i+2]-'0' > 9 {
		return i, false
	}
	return i + 3, true
}
