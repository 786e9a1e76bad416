//go:build !unix

package proxy

import "math"

// descriptorLimit has nothing to say where descriptors are not limited.
func descriptorLimit() (int, error) { return math.MaxInt32, nil }
