package bench

import (
	"errors"
	"slices"
)

// A cleanup remembers how to undo what was done.
type cleanup []func() error

func (c *cleanup) add(f func() error) { *c = append(*c, f) }

// undo undoes the last first, and all of it.
func (c *cleanup) undo() error {
	var errs []error
	for _, f := range slices.Backward(*c) {
		errs = append(errs, f())
	}
	*c = nil
	return errors.Join(errs...)
}
