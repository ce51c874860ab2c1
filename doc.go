package windlass
