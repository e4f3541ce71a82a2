package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// moment is when, and to which of the line's objects, an attribute is given.
type moment struct {
	now          time.Time
	index, count int
}

// reader reads a value into an edit of a T.
type reader[T any] = func(value string) (func(*T, moment), error)

// word takes the value as it is.
func word[T any](set func(*T, string)) reader[T] {
	return func(v string) (func(*T, moment), error) {
		return func(t *T, _ moment) { set(t, v) }, nil
	}
}

func number[T any](set func(*T, int)) reader[T] { return parsed(whole, set) }

// parsed takes the value as f reads it.
func parsed[T, V any](f func(string) (V, error), set func(*T, V)) reader[T] {
	return func(text string) (func(*T, moment), error) {
		v, err := f(text)
		return func(t *T, _ moment) { set(t, v) }, err
	}
}

// span takes a length of time; an empty value is none.
func span[T any](set func(*T, time.Duration)) reader[T] {
	return parsed(func(text string) (time.Duration, error) {
		if text == "" {
			return 0, nil
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("expected a length of time like 90s or 1h30m")
		}
		return d, nil
	}, set)
}

// yes sets what is said without a value.
func yes[T any](of func(*T) *bool) func(*T, moment) {
	return func(t *T, _ moment) { *of(t) = true }
}

// no takes it away again, by an empty value.
func no[T any](of func(*T) *bool) reader[T] {
	return func(text string) (func(*T, moment), error) {
		if text != "" {
			return nil, fmt.Errorf("expected no value, or an empty one to take it away")
		}
		return func(t *T, _ moment) { *of(t) = false }, nil
	}
}

// when takes a time from now on; an empty value is none.
func when[T any](set func(*T, time.Time)) reader[T] {
	return func(text string) (func(*T, moment), error) {
		if text == "" {
			return func(t *T, _ moment) { set(t, time.Time{}) }, nil
		}
		d, err := ahead(text)
		return func(t *T, m moment) { set(t, m.now.Add(d)) }, err
	}
}

// listed takes values one at a time, by repeating the attribute; an empty value empties the list.
func listed[T, V any](f func(string) (V, error), list func(*T) *[]V) reader[T] {
	return func(text string) (func(*T, moment), error) {
		if text == "" {
			return func(t *T, _ moment) { *list(t) = nil }, nil
		}
		v, err := f(text)
		return func(t *T, _ moment) {
			l := list(t)
			*l = append((*l)[:len(*l):len(*l)], v)
		}, err
	}
}

// resources takes amounts under their short names, and "resource=".
func resources[T any](c *engine.Config, of func(*T) *engine.Resources) func(key, value string) (func(*T, moment), error) {
	return func(key, value string) (func(*T, moment), error) {
		a, err := amount(key, value, c)
		if a.Resource == "" || err != nil {
			return nil, err
		}
		return func(t *T, _ moment) { *of(t) = withAmount(*of(t), a) }, nil
	}
}

// amounts takes several amounts in one value, "gpus=8,cpu=64,gpus@H100=4"; an empty value is none at all.
func amounts[T any](c *engine.Config, of func(*T) *engine.Resources) reader[T] {
	return func(text string) (func(*T, moment), error) {
		if text == "" {
			return func(t *T, _ moment) { *of(t) = nil }, nil
		}
		one, sets := resources(c, of), []func(*T, moment){}
		for _, part := range strings.Split(text, ",") {
			key, value, _ := strings.Cut(part, "=")
			set, err := one(key, value)
			if err == nil && set == nil {
				err = fmt.Errorf("expected amounts like gpus=8,cpu=64")
			}
			if err != nil {
				return nil, err
			}
			sets = append(sets, set)
		}
		return func(t *T, m moment) {
			for _, set := range sets {
				set(t, m)
			}
		}, nil
	}
}
