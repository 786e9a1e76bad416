//go:build !linux

package main

// monotonic is empty where there is no such service manager.
func monotonic() string { return "" }
