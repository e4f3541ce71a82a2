package api

import (
	"strconv"
	"strings"
)

// Share is a part of a device that several have at once. In a list of devices, beside those that are had whole, it is written as a text:
// the device, what it draws on its capacity, and the name of the share where it has one, as in
//
//	net.example.com/node-1/eth-0?bandwidth=1000000#0f3c
//
// Pods that list the same name have one share together. Shares without a name, those of plans, are each their own.
type Share struct {
	Device string
	Draws  []Draw
	Name   string
}

func (s *Share) String() string {
	var b strings.Builder
	b.WriteString(s.Device)
	sep := byte('?')
	if len(s.Draws) == 0 {
		b.WriteByte(sep)
	}
	for _, d := range s.Draws {
		b.WriteByte(sep)
		b.WriteString(d.Counter)
		b.WriteByte('=')
		b.WriteString(strconv.FormatInt(d.Amount, 10))
		sep = '&'
	}
	if s.Name != "" {
		b.WriteByte('#')
		b.WriteString(s.Name)
	}
	return b.String()
}

// ParseShare reads a share; ok is false where the text is that of a whole device, or of none.
func ParseShare(text string) (s Share, ok bool) {
	device, rest, ok := strings.Cut(text, "?")
	if !ok || device == "" {
		return Share{}, false
	}
	s.Device = device
	rest, s.Name, _ = strings.Cut(rest, "#")
	for rest != "" {
		var one string
		one, rest, _ = strings.Cut(rest, "&")
		name, amount, found := strings.Cut(one, "=")
		v, err := strconv.ParseInt(amount, 10, 64)
		if !found || name == "" || err != nil || v < 0 || v > MaxAmount {
			return Share{}, false
		}
		s.Draws = append(s.Draws, Draw{name, v})
	}
	return s, true
}

// DeviceOf is the device that the text of a list of devices is about, whole or a share of it.
func DeviceOf(text string) string {
	device, _, _ := strings.Cut(text, "?")
	return device
}
