//go:build !linux

package proxy

import (
	"context"
	"errors"
)

func canKnock(string) bool { return false }

func knock(context.Context, string) error { return errors.ErrUnsupported }
