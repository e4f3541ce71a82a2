package scenario

import (
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

// when takes a time from now on.
func when[T any](set func(*T, time.Time)) reader[T] {
	return func(text string) (func(*T, moment), error) {
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
		resource, v, err := amount(key, value, c)
		if resource == "" || err != nil {
			return nil, err
		}
		return func(t *T, _ moment) { *of(t) = withAmount(*of(t), resource, v) }, nil
	}
}
