package cli

import (
	"fmt"
	"time"
)

// moment reads a past time as people write it: RFC 3339; 15:04 or 15:04:05, the last time that the clock here showed
// it; or how long ago it was. now carries the zone.
func moment(s string, now time.Time) (time.Time, error) {
	t, err := readMoment(s, now)
	if err == nil && t.After(now) {
		return t, fmt.Errorf("%s is still to come", s)
	}
	return t, err
}

func readMoment(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		clock, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		y, m, d := now.Date()
		t := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), now.Location())
		if t.After(now) {
			t = time.Date(y, m, d-1, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), now.Location())
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 15:04, 15:04:05, 2006-01-02T15:04:05Z, or how long ago, as in 5m", s)
}

// stamp writes a time so that it can be given back: RFC 3339 in the zone of this machine, with milliseconds.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02T15:04:05.000Z07:00") }
