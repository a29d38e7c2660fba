"""Recipes, rewards, advantages, group filters, trainers."""
